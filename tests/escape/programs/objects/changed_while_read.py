# expect: completed
# A thread changes the value while it is rendered.
import threading


def extract(path):
    value = {"escaped": [], "growing": {n: [n] for n in range(20_000)}}

    def change():
        number = 0
        while True:
            number += 1
            value["growing"][-(number % 1000)] = number
            value["growing"].pop(number % 20_000, None)

    threading.Thread(target=change, daemon=True).start()
    return value
