# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "def extract(path):\n    return path" + ".a" * 200_000
