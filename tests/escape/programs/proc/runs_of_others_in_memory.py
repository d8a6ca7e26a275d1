# expect: completed | run: memory_mb=128 deadline_s=15 timeout_s=40
# What a container is cloned from has started others before: it must not remember which.
import ctypes
import re

PR_SET_DUMPABLE = 4
NAMED = re.compile(rb'"id": ?"[0-9A-HJKMNP-TV-Z]{26}"')
PIECE = 2**20


def extract(path):
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    found = set()
    with open("/proc/self/maps") as maps:
        places = [line.split()[:2] for line in maps if "[v" not in line]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for place, rights in places:
            start, end = (int(part, 16) for part in place.split("-"))
            if not rights.startswith("rw"):
                continue
            for at in range(start, end, PIECE):
                try:
                    memory.seek(at)
                    found.update(NAMED.findall(memory.read(min(PIECE + 64, end - at))))
                except OSError:
                    pass
    return {"escaped": sorted(each.decode() for each in found)}
