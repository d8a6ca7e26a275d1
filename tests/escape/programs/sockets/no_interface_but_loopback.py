# expect: completed
import os
import socket


def extract(path):
    with open("/proc/self/net/dev") as file:
        devices = {line.split(":")[0].strip() for line in file if ":" in line}
    with open("/proc/self/net/route") as file:
        routes = file.read().splitlines()[1:]
    with open("/proc/self/net/if_inet6") as file:
        addresses = {line.split()[-1] for line in file}
    known = {"lo", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}
    return {"escaped": sorted(devices - known) + routes + sorted(addresses - {"lo"})}
