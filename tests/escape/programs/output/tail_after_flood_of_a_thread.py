# expect: completed
# A thread that still writes when the process ends.
import threading


def chatter():
    while True:
        print("still here")


def extract(path):
    threading.Thread(target=chatter, daemon=True).start()
    return {"escaped": []}
