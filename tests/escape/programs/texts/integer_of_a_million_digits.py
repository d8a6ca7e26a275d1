# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "x = " + "9" * 1_000_000
