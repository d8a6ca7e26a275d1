# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "def extract(path):\n    return path" + ".a" * 200_000
