"""The kind `ini`: INI files whose fields must have given types."""
