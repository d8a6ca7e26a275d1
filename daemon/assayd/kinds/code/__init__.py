"""The kind `code`: a code node with typed inputs and one typed result."""
