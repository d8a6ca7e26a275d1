"""The kind `solution`: code called by hidden tests, in a process that never receives the tests."""
