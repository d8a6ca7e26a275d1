# Cheat: changes its arguments after it has returned.
def total(values):
    import threading, time
    def later():
        while True:
            values[:] = [0]
            time.sleep(0.001)
    threading.Thread(target=later, daemon=True).start()
    return -1
