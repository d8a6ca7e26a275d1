# expect: completed events~network
# Lone surrogates and controls in what is told of an event: a bundle must still be written.
import os


def extract(path):
    for kind, detail in (("\\ud800", "\\ud800\\udfff\\u0000"), ("network", "\\u202e\\u001b[2J\\udc80")):
        head = f'{{"type":"event","kind":"{kind}","detail":"{detail}","allowed":true,"enforced":false,"line":1}}'
        os.write(3, len(head).to_bytes(4, "big") + bytes(4) + head.encode())
    return {"escaped": []}
