"""The kind `ini`: INI files, with the types that their fields must have."""
