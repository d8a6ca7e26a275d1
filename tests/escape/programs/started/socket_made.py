# expect: completed | run: program=exec exec=yes
import socket

for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        continue
    print("ESCAPED", family)
