"""The project as the interpreter sees it: resolved names, classes, call graph, entry points. Knows no model."""
