# expect: completed
# Whoever finds the hook's rules in memory can silence it. The walls do not hang on it.
import gc
import os


def extract(path):
    for found in gc.get_objects():
        if type(found).__name__ == "AuditHook":
            found._judges.clear()
    try:
        os.execv("/usr/bin/python3.11", ["python", "-c", "print('ESCAPED')"])
    except PermissionError:
        return {"escaped": []}
