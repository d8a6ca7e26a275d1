# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "x = " + "9" * 1_000_000
