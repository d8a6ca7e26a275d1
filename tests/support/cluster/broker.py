"""A RabbitMQ server for tests, and messages like those that a gateway publishes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from assayd_cluster.broker import create_celery
from assayd_cluster.gateway.outbox import BrokerChannel, BrokerMessage
from support.cluster.stub_gateway import TICKET

QUEUE = "assayd.attempts"
INSTALLED = Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()
needs_broker = pytest.mark.filterwarnings("error") if INSTALLED else pytest.mark.system
"""Where RabbitMQ is not installed these are among the tests of `make test-system`, which installs it."""
_SCRIPT = Path(__file__).resolve().parents[3] / "deploy/dev/rabbitmq.sh"


class Broker:
    """The broker in a folder.

    Args:
        delivery_timeout_s: after it a message that is held goes to another node.
        definitions: what it declares, in the place of the project's own.
        management: whether it serves the management API.
    """

    def __init__(
        self,
        folder: Path,
        *,
        delivery_timeout_s: int = 1800,
        definitions: Path | None = None,
        management: bool = False,
    ) -> None:
        self.folder = folder
        self._environment = {**os.environ, "DELIVERY_TIMEOUT_S": str(delivery_timeout_s)}
        if management:
            self._environment["MANAGEMENT"] = "1"
        if definitions is not None:
            self._environment["DEFINITIONS"] = str(definitions)

    def start(self) -> None:
        self._run("start")

    def kill(self) -> None:
        self._run("kill")

    def stop(self) -> None:
        self._run("stop")

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    def url_file(self, role: str) -> Path:
        return self.folder / f"{role}.url"

    def publish(self, attempts: list[str], *, ticket: str = TICKET) -> None:
        """Publish messages, each with a publisher confirm."""
        channel = BrokerChannel(create_celery(self.url_file("gateway").read_text().strip(), queue=QUEUE))
        channel.send(
            [BrokerMessage(attempt=attempt, submission="0" * 64, ticket=ticket) for attempt in attempts]
        )
        channel.close()

    def _run(self, verb: str) -> None:
        subprocess.run(
            [_SCRIPT, verb, self.folder], env=self._environment, check=True, capture_output=True, timeout=120
        )
