# expect: protocol_violation
# Line numbers that no file has.
import os


def extract(path):
    for line in (-5, 10**30):
        head = f'{{"type":"event","kind":"k","detail":"d","allowed":true,"enforced":false,"line":{line}}}'
        os.write(3, len(head).to_bytes(4, "big") + bytes(4) + head.encode())
    return {"escaped": []}
