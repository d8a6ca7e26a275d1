# expect: completed
import threading
import time


def extract(path):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return {"escaped": []}
