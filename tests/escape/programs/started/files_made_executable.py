# expect: completed | run: program=exec exec=yes
import ctypes
import os
import shutil
import subprocess

shutil.copy("/usr/bin/python3.11", "mine")
os.chmod("mine", 0o755)
for place in ("./mine", "/sandbox/mine", "/dev/shm/mine"):
    if place.startswith("/dev"):
        try:
            shutil.copy("mine", place)
            os.chmod(place, 0o755)
        except OSError:
            continue
    try:
        subprocess.run([place, "-c", "print('ESCAPED', 'ran', '%s')" % place], check=False)
    except OSError:
        pass
if ctypes.CDLL(None).memfd_create(b"mine", 0) >= 0:
    print("ESCAPED memfd_create")
