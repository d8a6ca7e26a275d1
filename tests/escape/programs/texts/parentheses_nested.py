# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "(" * 100_000 + ")" * 100_000
