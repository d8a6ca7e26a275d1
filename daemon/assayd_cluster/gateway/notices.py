"""Sends notices between gateways with the database's `LISTEN` and `NOTIFY`.

A notice reports that a record has changed; a gateway that missed the notice finds the change in the record.
Therefore, after the connection has been lost, every waiting component reads its records again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import structlog
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from assayd.aio import compute_backoff_delay_s, open_task_group

log = structlog.get_logger()

CHANNEL = "assayd_events"
MAX_BYTES = 7_900
"""Maximum size of a notice; PostgreSQL limits notices to 8000 bytes."""
_NOTIFY = text("SELECT pg_notify(:channel, :notice)")

Notice = Mapping[str, Any]
Hear = Callable[[Notice], None]


class GatewayNotices:
    """The notices that gateways exchange through the database. A gateway ignores notices that it sent."""

    def __init__(self, database_url: str, gateway_id: str) -> None:
        url = make_url(database_url).set(drivername="postgresql")
        self._address = url.render_as_string(hide_password=False)
        self._gateway_id = gateway_id
        self._hear: dict[str, Hear] = {}
        self._missed: Callable[[], None] = lambda: None

    def register_callback(self, kind: str, hear: Hear) -> None:
        """Register a callback for a kind of notice."""
        self._hear[kind] = hear

    def register_missed_callback(self, missed: Callable[[], None]) -> None:
        """Register a callback that is called when notices may have been missed."""
        self._missed = missed

    def remove_callback(self, kind: str) -> None:
        """Remove the callback for a kind of notice, because its owner is shutting down."""
        del self._hear[kind]

    def send_notice(self, connection: Connection, kind: str, **content: object) -> bool:
        """Send a notice to the other gateways at commit. Return False if its content is too long."""
        notice = self.write(kind, **content)
        if len(notice) > MAX_BYTES:
            return False
        connection.execute(_NOTIFY, {"channel": CHANNEL, "notice": notice})
        return True

    def write(self, kind: str, **content: object) -> str:
        """Return a notice from this gateway as JSON in ASCII."""
        return json.dumps({"from": self._gateway_id, "kind": kind, **content}, separators=(",", ":"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen for notices while the body runs."""
        async with open_task_group() as tasks:
            listening = tasks.create_task(self._listen_forever(), name="notices")
            try:
                yield
            finally:
                listening.cancel()

    async def _listen_forever(self) -> None:
        failures = 0
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._address, autocommit=True
                ) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    failures = 0
                    self._missed()
                    async for notice in connection.notifies():
                        self._dispatch_notice(notice.payload)
            except psycopg.Error as trouble:
                failures += 1
                log.error("notices.lost", problem=type(trouble).__name__, failures=failures)
                await asyncio.sleep(compute_backoff_delay_s(failures))

    def _dispatch_notice(self, payload: str) -> None:
        """Call the callback for a received notice, and log any error that the callback raises."""
        try:
            notice = json.loads(payload)
            hear = self._hear.get(notice["kind"])
            if hear is not None and notice["from"] != self._gateway_id:
                hear(notice)
        except Exception:
            log.exception("notice.not_heard", bytes=len(payload))
