"""The interpreter: evaluation, branches, loops, joins, calls, summaries. Knows Python, not torch."""
