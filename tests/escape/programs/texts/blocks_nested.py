# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "\n".join(" " * depth + "if 1:" for depth in range(200)) + "\n" + " " * 200 + "pass"
