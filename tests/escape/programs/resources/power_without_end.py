# expect: timeout | run: deadline_s=0.5
# One byte code that never comes back to the interpreter.
def extract(path):
    return 9**9**9
