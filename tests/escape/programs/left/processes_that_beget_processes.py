# expect: left_processes
# Each forks and ends at once: nobody stays long enough to be named, all are gone at the end.
import os


def extract(path):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                if os.fork() != 0:
                    os._exit(0)
            except OSError:
                pass
    return {"escaped": []}
