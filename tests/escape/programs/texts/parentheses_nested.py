# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "(" * 100_000 + ")" * 100_000
