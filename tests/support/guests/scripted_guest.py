"""A guest that does what the first line of its input says: as a program for an image, and in memory.

ready: said by every guest before it reads anything. echo: gives back what comes. flood: writes for ever.
count N: writes N numbered lines. complain N: writes N bytes to standard error. exit N: ends with N.
"""

from support.fakes.engine import Peer

READY = b"ready\n"
FLOOD = b"x" * 65536

PROGRAM = """
import os, sys

def send(data, to=1):
    while data:
        data = data[os.write(to, data):]

send(b"ready\\n")
line = b""
while not line.endswith(b"\\n"):
    piece = os.read(0, 1)
    if not piece:
        sys.exit(0)
    line += piece
command, _, number = line.decode().strip().partition(" ")
if command == "echo":
    while piece := os.read(0, 65536):
        send(piece)
while command == "flood":
    send(b"x" * 65536)
if command == "count":
    send(b"".join(b"%d\\n" % n for n in range(int(number))))
if command == "complain":
    send(b"y" * (int(number) - 4) + b"last", to=2)
    send(b"done\\n")
sys.exit(int(number) if command == "exit" else 0)
"""


async def play(peer: Peer) -> None:
    """Act as that guest in memory."""
    await peer.write(READY)
    received = b""
    while b"\n" not in received:
        piece = await peer.read()
        if not piece:
            return
        received += piece
    line, _, rest = received.partition(b"\n")
    command, _, number = line.decode().partition(" ")
    match command:
        case "echo":
            await _echo(peer, rest)
        case "flood":
            while True:
                await peer.write(FLOOD)
        case "count":
            await peer.write(b"".join(b"%d\n" % n for n in range(int(number))))
        case "complain":
            peer.complain(b"y" * (int(number) - 4) + b"last")
            await peer.write(b"done\n")
        case "exit":
            peer.exit_code = int(number)


async def _echo(peer: Peer, piece: bytes) -> None:
    if piece:
        await peer.write(piece)
    while piece := await peer.read():
        await peer.write(piece)
