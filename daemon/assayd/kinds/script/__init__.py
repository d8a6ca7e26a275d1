"""The kind `script`: any program of the image, judged by its exit code and output files."""
