# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "x = " + "f'{(" * 500 + ")}'" * 500
