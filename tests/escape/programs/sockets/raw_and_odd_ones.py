# expect: completed | run: network=allowlist
# A mode that allows TCP allows nothing else.
import socket


def extract(path):
    escaped = []
    for family, kind, protocol in (
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        (socket.AF_INET, socket.SOCK_STREAM, 132),
        (socket.AF_INET, socket.SOCK_STREAM, 262),
        (socket.AF_INET, socket.SOCK_DGRAM, 0),
        (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP),
        (socket.AF_INET, socket.SOCK_DGRAM, 136),
        (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
        (socket.AF_INET6, socket.SOCK_STREAM, 0),
        (socket.AF_PACKET, socket.SOCK_RAW, 0x0300),
        (socket.AF_NETLINK, socket.SOCK_RAW, 0),
        (socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
        (socket.AF_VSOCK, socket.SOCK_STREAM, 0),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0),
    ):
        try:
            socket.socket(family, kind, protocol)
            escaped.append([int(family), int(kind), protocol])
        except OSError:
            pass
    return {"escaped": escaped}
