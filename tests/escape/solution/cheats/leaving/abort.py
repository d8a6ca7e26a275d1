# Cheat: aborts with a core dump.
def total(values):
    import os
    os.abort()
