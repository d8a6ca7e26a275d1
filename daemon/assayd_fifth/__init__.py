"""The kind `fifth`: programs of Fifth, a Forth dialect, under declarative rules."""
