# expect: completed outputs=a.bin:200000,b.bin:62144,c.bin:0 cut=b.bin,c.bin | run: collect=*.bin
def extract(path):
    for name in "abc":
        with open(f"{name}.bin", "wb") as file:
            file.write(bytes(200_000))
    return {"escaped": []}
