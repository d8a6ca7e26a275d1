# expect: completed | run: deadline_s=15
# Goes through the whole file system: what can be written is the work directory, the tiny shared memory, and devices
# without contents.
import os
import stat

HARMLESS = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}
PLACES = ("/sandbox", "/dev/shm", "/dev/pts")


def extract(path):
    escaped = []
    for folder, folders, files in os.walk("/"):
        if folder == "/proc" or folder in PLACES:
            folders.clear()
            continue
        for name in [".", *files]:
            full = os.path.normpath(f"{folder}/{name}")
            mode = os.lstat(full).st_mode
            if not stat.S_ISLNK(mode) and full not in HARMLESS and os.access(full, os.W_OK):
                escaped.append(full)
    return {"escaped": escaped}
