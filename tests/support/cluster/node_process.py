"""Nodes as processes, started as an operator starts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


class NodeProcess:
    """One `assayd-node` process, which logs to a file."""

    def __init__(self, folder: Path, name: str, *, gateway: str, broker_url: Path, socket: Path) -> None:
        folder.mkdir(exist_ok=True)
        token = folder / "token"
        token.write_text("t" * 43)
        self.name = name
        self.log = folder / "node.log"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")},
            "ASSAYD_NODE_NAME": name,
            "ASSAYD_NODE_GATEWAY": gateway,
            "ASSAYD_NODE_TOKEN_FILE": str(token),
            "ASSAYD_NODE_BROKER_URL_FILE": str(broker_url),
            "ASSAYD_NODE_SOCKET": str(socket),
            "ASSAYD_NODE_CAPACITY": "4",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "assayd_cluster.node"]
            self.process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def end(self) -> None:
        """Kill the process if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def events(self) -> list[str]:
        """Return the names of the logged events."""
        lines = (line for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [str(json.loads(line).get("event")) for line in lines]
