"""Lowering: a definition, visited once with LibCST, becomes a small typed program. Knows Python, not AMP."""
