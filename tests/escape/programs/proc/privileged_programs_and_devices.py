# expect: completed | run: deadline_s=15
# No program that brings privileges, no shell, no compiler, no device behind which the host is.
import os
import stat

ROOTS = ("/usr", "/etc", "/dev", "/bin", "/sbin", "/lib")
DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}


def extract(path):
    escaped = []
    for root in ROOTS:
        for folder, folders, files in os.walk(root):
            for name in [*files, *folders]:
                mode = os.lstat(f"{folder}/{name}").st_mode
                special = stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and name not in DEVICES)
                privileged = stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)
                runs = stat.S_ISREG(mode) and mode & 0o111 and "/bin" in folder and name != "python3.11"
                if special or privileged or runs:
                    escaped.append(f"{folder}/{name}")
    return {"escaped": escaped}
