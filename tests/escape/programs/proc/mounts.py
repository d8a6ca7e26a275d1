# expect: completed
# What is mounted for writing is what the documents list, without devices, set-uid and, where it lies on memory,
# programs.
KNOWN = {"/sandbox", "/dev", "/dev/shm", "/dev/pts", "/dev/mqueue", "/proc"}
# In a user namespace no device can be made, so that these are mounted one by one; a device stores nothing.
KNOWN |= {"/dev/" + name for name in ("null", "zero", "full", "tty", "random", "urandom")}


def extract(path):
    escaped = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            place, options = fields[4], set(fields[5].split(","))
            if place.startswith(("/proc/", "/sys")):
                known = "ro" in options or place in {"/proc/" + name for name in ("kcore", "keys", "timer_list")}
                known = known or fields[fields.index("-") + 1] in {"tmpfs", "devtmpfs"}
            else:
                known = "ro" in options or place in KNOWN
            if not known:
                escaped.append(line)
            if place == "/sandbox" and not {"nosuid", "nodev", "noexec"} <= options:
                escaped.append(line)
    return {"escaped": escaped}
