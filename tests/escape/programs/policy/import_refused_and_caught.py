# expect: policy_violation refused="import socket" | run: policy=default
# To catch the refusal does not undo it.
try:
    import socket
except ImportError:
    socket = None


def extract(path):
    return {"escaped": [str(socket)] if socket else []}
