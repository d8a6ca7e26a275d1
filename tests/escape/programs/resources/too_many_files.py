# expect: completed limits_met
import os


def extract(path):
    made = 0
    try:
        while made < 10_000:
            os.close(os.open(f"f{made}", os.O_CREAT))
            made += 1
    except OSError:
        pass
    return {"escaped": [made] if made > 256 else []}
