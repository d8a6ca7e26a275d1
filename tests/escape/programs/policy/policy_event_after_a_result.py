# expect: policy_violation refused~"import socket" | run: policy=default
# A result that looks good does not outweigh a refusal.
def extract(path):
    try:
        import socket
    except ImportError:
        pass
    return {"escaped": []}
