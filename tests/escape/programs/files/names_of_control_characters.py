# expect: completed outputs=plain:0 dropped~"not plain text" | run: collect=*
import os


def extract(path):
    for name in (b"a\nb", b"\x1b[2J", b"\xff\xfe", b"\r", "\u202e".encode(), b"\x7f", "\u2028".encode(), b"plain"):
        os.close(os.open(name, os.O_CREAT))
    return {"escaped": []}
