# Cheat: never returns.
def total(values):
    while True:
        pass
