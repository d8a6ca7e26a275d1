# expect: exited_nonzero record=CompileFailure message~"too many statically nested blocks" | run: made=yes
SOURCE = "\n".join(" " * depth + "for x in y:" for depth in range(30)) + "\n" + " " * 30 + "pass"
