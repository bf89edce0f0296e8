"""Models of frameworks: one file each."""
