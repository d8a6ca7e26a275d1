# expect: completed
import os


def extract(path):
    places = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/assayd/assayd.sock")
    found = [place for place in places if os.path.exists(place)]
    with open("/proc/self/net/unix") as file:
        found += file.read().splitlines()[1:]
    return {"escaped": found}
