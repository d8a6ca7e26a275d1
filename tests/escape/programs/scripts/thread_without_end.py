# expect: timeout killed_by~deadline | run: program=script exec=yes deadline_s=1
import threading
import time

threading.Thread(target=time.sleep, args=(60,)).start()
