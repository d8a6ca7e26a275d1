"""The kind `extractor`: a function that takes a path apart, tried on sample paths."""
