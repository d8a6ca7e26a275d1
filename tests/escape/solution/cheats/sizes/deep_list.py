# Cheat: returns a deeply nested list.
def total(values):
    made = []
    for _ in range(100_000):
        made = [made]
    return made
