# expect: output_limit stdout_bytes stderr_bytes
import os
import threading


def flood(descriptor):
    while True:
        os.write(descriptor, b"y" * 4096)


def extract(path):
    # Without this the limit may be reached by one stream before the other's thread has run at all.
    for descriptor in (1, 2):
        os.write(descriptor, b"x")
    threading.Thread(target=flood, args=(1,), daemon=True).start()
    flood(2)
