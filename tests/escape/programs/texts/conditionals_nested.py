# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "x = " + "1 if a else " * 50_000 + "0"
