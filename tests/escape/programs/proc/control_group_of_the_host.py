# expect: completed
# With a namespace of its own, the container's group is the root of what it sees.
def extract(path):
    with open("/proc/self/cgroup") as file:
        places = {line.rstrip("\n").split(":", 2)[2] for line in file}
    return {"escaped": sorted(places - {"/"})}
