# expect: completed events_dropped events~network
# Events are capped, and there is room for those of refused things.
import os


def event(kind, detail, allowed):
    head = f'{{"type":"event","kind":"{kind}","detail":"{detail}","allowed":{allowed},"enforced":false,"line":1}}'
    return len(head).to_bytes(4, "big") + bytes(4) + head.encode()


def extract(path):
    for number in range(2000):
        os.write(3, event("import", f"m{number}", "true"))
    os.write(3, event("network", "example.com:443", "false"))
    return {"escaped": []}
