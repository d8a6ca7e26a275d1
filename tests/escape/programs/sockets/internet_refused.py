# expect: completed events~network
import socket


def extract(path):
    escaped = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        try:
            socket.socket(family)
            escaped.append(str(family))
        except PermissionError:
            pass
    return {"escaped": escaped}
