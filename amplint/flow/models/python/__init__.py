"""Models of Python's builtins and standard library. Nothing here knows torch."""
