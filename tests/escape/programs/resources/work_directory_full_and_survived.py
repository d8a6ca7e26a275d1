# expect: completed limits_met
def extract(path):
    held = 0
    try:
        for number in range(64):
            with open(f"f{number}", "wb", buffering=0) as file:
                held += file.write(bytes(2**20))
    except OSError:
        pass
    return {"escaped": [held] if held > 8 * 2**20 else []}
