# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "x = " + "-" * 200_000 + "1"
