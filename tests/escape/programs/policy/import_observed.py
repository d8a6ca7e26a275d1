# expect: completed events~"import socket"
import socket


def extract(path):
    return {"escaped": [] if socket else ["nothing"]}
