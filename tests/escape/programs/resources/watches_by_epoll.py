# expect: completed | run: processes=2
# A user has so many on the whole machine (fs.epoll.max_user_watches); a container gets by with what it may open.
import os
import select

OPEN_FILES = 128


def extract(path):
    kept, watches = [], 0
    reading, _ = os.pipe()
    try:
        while True:
            kept.append(select.epoll())
    except OSError:
        pass
    for watcher in kept:
        for descriptor in (reading, *(other.fileno() for other in kept)):
            try:
                watcher.register(descriptor, select.EPOLLIN)
                watches += 1
            except OSError:
                pass
    return {"escaped": [watches] if watches > OPEN_FILES**2 else []}
