# expect: out_of_memory
# Dumpable again, the child may lower its own score to where the engine set it: then the runner can be hit. Even so
# the run ends as what it is, a lack of memory.
import ctypes
import os


def extract(path):
    ctypes.CDLL(None).prctl(4, 1)
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("0")
    for _ in range(4):
        if os.fork() == 0:
            break
    kept = []
    while True:
        kept.append(bytearray(2**18))
