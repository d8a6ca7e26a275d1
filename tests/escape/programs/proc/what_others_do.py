# expect: completed
# Locks of others can be told by their places, disks by their counters, keys by their users.
PATHS = ("/proc/locks", "/proc/diskstats", "/proc/key-users")


def extract(path):
    escaped = []
    for name in PATHS:
        try:
            with open(name) as file:
                escaped += [name] if file.read() else []
        except OSError:
            pass
    return {"escaped": escaped}
