# expect: completed limits_met
import threading
import time


def extract(path):
    started = 0
    try:
        while started < 1000:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    return {"escaped": [started] if started > 6 else []}
