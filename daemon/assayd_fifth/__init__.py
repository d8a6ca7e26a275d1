"""The kind `fifth`: programs in Fifth, a Forth dialect, which declarative rules check."""
