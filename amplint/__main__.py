"""``python -m amplint``."""

from amplint.cli.main import main

main()
