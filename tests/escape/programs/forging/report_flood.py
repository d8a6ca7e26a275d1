# expect: output_limit killed_by="result cap"
import os


def extract(path):
    head = b'{"type":"event","kind":"k","detail":"d","allowed":true,"enforced":false,"line":null}'
    frame = (len(head).to_bytes(4, "big") + bytes(4) + head) * 500
    while True:
        os.write(3, frame)
