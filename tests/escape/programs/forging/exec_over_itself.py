# expect: protocol_violation result_records=0 | run: exec=yes
# Another program image that exits 0 in place of the one that owes a result.
import os


def extract(path):
    os.execv("/usr/bin/python3.11", ["python", "-I", "-S", "-c", "pass"])
