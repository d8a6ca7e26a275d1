# expect: completed units=2 | run: units=2
# No unit finds in its memory what a later one is to get. It looks for that backwards, so that it does not find
# what it looks for in the looking.
import ctypes


def copies(backwards):
    with open("/proc/self/maps") as file:
        spans = [line.split()[0].split("-") for line in file if " rw" in line and "[v" not in line]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for start, end in spans:
            memory.seek(int(start, 16))
            content = memory.read(int(end, 16) - int(start, 16)) or b""
            yield content[::-1].count(backwards)


def extract(path):
    ctypes.CDLL(None).prctl(4, 1)
    name, number = path.split("-")
    own, other = (f"{digit}-{name[::-1]}".encode() for digit in (int(number), int(number) + 1))
    escaped = [] if sum(copies(own)) else ["the probe is blind"]
    return {"escaped": escaped + [found for found in copies(other) if found]}
