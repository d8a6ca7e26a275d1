# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "x = " + "f'{(" * 500 + ")}'" * 500
