"""The kind `extractor`: a function that extracts fields from a file path, tried on sample paths."""
