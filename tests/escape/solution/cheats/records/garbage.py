# Cheat: sends bytes that aren't a message.
def total(values):
    import os
    os.write(6, os.urandom(4096))
    return -1
