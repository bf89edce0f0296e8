"""What the files of a project say about each other: names, classes, effects, callers. Nothing is evaluated here."""
