# Cheat: takes all memory.
def total(values):
    held = []
    while True:
        held.append(bytearray(16 << 20))
