# expect: exited_nonzero record=NotCompiled | run: made=yes
SOURCE = "\ufeffdef extract(path):\n    return {'escaped': []}\n"
