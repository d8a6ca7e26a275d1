# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "\ufeffdef extract(path):\n    return {'escaped': []}\n"
