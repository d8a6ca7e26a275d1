# expect: completed outputs=kept:0 | run: collect=kept
import os


def extract(path):
    escaped = []
    os.close(os.open("kept", os.O_CREAT))
    for act in (lambda: os.rename("/sandbox", "/other"), lambda: os.rmdir("/sandbox"), lambda: os.mkdir("/other")):
        try:
            act()
            escaped.append(act.__code__.co_names)
        except OSError:
            pass
    return {"escaped": escaped}
