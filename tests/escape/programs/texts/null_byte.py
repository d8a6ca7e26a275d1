# expect: exited_nonzero record=CompileFailure | run: made=yes
SOURCE = "def extract(path):\n    return {'escaped': []}\n\0\nprint('ESCAPED after the null byte')\n"
