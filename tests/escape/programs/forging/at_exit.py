# expect: completed
# Nothing of the guest runs after its function has returned.
import atexit
import threading
import weakref


class Finalised:
    def __del__(self):
        print("ESCAPED a finaliser ran", flush=True)


def extract(path):
    atexit.register(print, "ESCAPED atexit ran", flush=True)
    threading._register_atexit(print, "ESCAPED the thread module's atexit ran", flush=True)
    global kept
    kept = Finalised()
    weakref.finalize(kept, print, "ESCAPED a weak reference's finaliser ran", flush=True)
    return {"escaped": []}
