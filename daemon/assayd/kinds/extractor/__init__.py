"""The kind `extractor`: a function that extracts fields from a file path, tested with sample paths."""
