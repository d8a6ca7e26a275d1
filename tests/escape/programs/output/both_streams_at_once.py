# expect: output_limit stdout_bytes stderr_bytes
import os
import threading


def flood(descriptor):
    while True:
        os.write(descriptor, b"y" * 4096)


def extract(path):
    threading.Thread(target=flood, args=(1,), daemon=True).start()
    flood(2)
