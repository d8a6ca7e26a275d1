"""The kind `script`: any program of the image, decided by how it ends and what it leaves."""
