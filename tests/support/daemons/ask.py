"""Requests from a process of another user."""

from __future__ import annotations

import json
import subprocess

from assayd_client import Document
from support.daemons.daemon_process import DaemonProcess

NOBODY = 65534
ASK = """
import json, socket, sys
path, method, target, body = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    head = f"{method} {target} HTTP/1.0\\r\\nHost: assayd\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
    connection.sendall((head + body).encode())
    answer = b"".join(iter(lambda: connection.recv(65536), b""))
status, _, rest = answer.partition(b"\\r\\n")
print(json.dumps([int(status.split()[1]), json.loads(rest.partition(b"\\r\\n\\r\\n")[2])]))
"""


def ask_as_nobody(
    daemon: DaemonProcess, method: str, target: str, body: object = None
) -> tuple[int, Document]:
    """Send a request from another user's process."""
    text = "" if body is None else json.dumps(body)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", ASK, daemon.socket, method, target, text],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    status, document = json.loads(done.stdout)
    return status, document
