"""The kind `module`: an adapter with its manifest and tests."""
