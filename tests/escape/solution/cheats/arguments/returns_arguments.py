# Cheat: returns its arguments.
def total(values):
    return values
