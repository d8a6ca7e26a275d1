# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "x = 1" + "+a" * 100_000
