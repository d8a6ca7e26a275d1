# expect: completed
import os
import stat


def extract(path):
    escaped = []
    for kind, major, minor in ((stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 3), (stat.S_IFBLK, 254, 0)):
        try:
            os.mknod(f"device-{major}-{minor}", 0o600 | kind, os.makedev(major, minor))
            escaped.append([major, minor])
        except OSError:
            pass
    return {"escaped": escaped}
