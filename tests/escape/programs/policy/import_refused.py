# expect: policy_violation refused="import socket" | run: policy=default
import socket


def extract(path):
    return {"escaped": [str(socket)]}
