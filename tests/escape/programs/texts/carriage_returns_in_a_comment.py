# expect: completed stdout=run | run: made=yes
# A carriage return ends a line for the compiler; whoever splits at line feeds only sees a comment.
SOURCE = "def extract(path):\n    # a comment\r    print('run', end='')\n    return {'escaped': []}\n"
