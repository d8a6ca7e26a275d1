# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "x = 1" + "+a" * 100_000
