"""What fixes a finding: LibCST codemods, and the rounds in which their changes are made."""
