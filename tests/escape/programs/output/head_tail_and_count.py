# expect: completed stdout~HEAD stdout~TAIL stdout~"[… 737864 bytes dropped …]" stdout_bytes=1000008 stdout_kept=262144 stdout_cut | run: kept_kb=256
import sys


def extract(path):
    sys.stdout.write("HEAD" + "m" * 1_000_000 + "TAIL")
    return {"escaped": []}
