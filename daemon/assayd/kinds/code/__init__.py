"""The kind `code`: a node with typed inputs and one typed result."""
