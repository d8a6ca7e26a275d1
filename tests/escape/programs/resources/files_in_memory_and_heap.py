# expect: out_of_memory
# Files of the work directory are memory too.
def extract(path):
    with open("big", "wb", buffering=0) as file:
        for _ in range(7):
            file.write(bytes(2**20))
    kept = []
    while True:
        kept.append(bytearray(2**20))
