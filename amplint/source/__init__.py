"""Source files: which ones there are, their bytes, their text and the map of what they define."""
