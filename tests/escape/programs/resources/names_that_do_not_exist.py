# expect: completed | run: memory_mb=32 deadline_s=15 timeout_s=40
# The kernel remembers each name that it did not find. It counts as the container's, and makes room by itself.
import os

NAMES = 40_000


def extract(path):
    for number in range(NAMES):
        if os.path.lexists(f"/usr/lib/{'n' * 200}{number}") or os.path.lexists(f"/sandbox/{'n' * 200}{number}"):
            return {"escaped": ["a name that nobody has made"]}
    return {"escaped": []}
