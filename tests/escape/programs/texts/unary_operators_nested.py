# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "x = " + "-" * 200_000 + "1"
