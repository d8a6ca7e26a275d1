"""Sends a node's requests to the daemon on its host, through the project's own client."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assayd.model.trace_context import TraceContext
from assayd_client import requests
from assayd_client.answers import StreamEvent
from assayd_client.blocking import PlainClient
from assayd_client.errors import ClientError, Conflict, NotFound
from assayd_client.requests import ClientRequest

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFileContent:
    """A file of a bundle, with its content and SHA-256 digest."""

    name: str
    content: bytes
    sha256: str


class DaemonClient:
    """A thread-safe client of the daemon.

    Raises: ClientError; DaemonUnreachable, if the daemon doesn't respond.
    """

    def __init__(self, socket: Path) -> None:
        self._client = PlainClient(socket)

    def readiness(self) -> str:
        """Return the reason why the daemon can't run a cluster's attempts, or an empty string if it can."""
        try:
            found = self._client.send(ClientRequest(method="GET", path="/readyz"))
        except ClientError as problem:
            return problem.message or problem.code
        # Without it, the daemon would run an attempt twice where the gateway counts one run.
        return "" if found.get("max_runs") else "its daemon is older than assayd-node; restart assayd"

    def profiles(self) -> dict[str, str]:
        """Return the digests of the daemon's profiles by profile name."""
        listed = self._client.policies()["policies"]
        return {str(policy["name"]): str(policy["digest"]) for policy in listed}

    def submit(
        self, attempt_id: str, document: str, *, wait_s: float, trace: TraceContext | None = None
    ) -> Document:
        """Submit a gateway's attempt under its id, and return the attempt after up to `wait_s` seconds."""
        asked = requests.submit(json.loads(document), attempt_id=attempt_id, wait_s=wait_s)
        headers = {} if trace is None else trace.headers
        once = (*asked.query, ("max_runs", "1"))  # the gateway counts runs across all nodes
        sent = replace(asked, query=once, headers={**asked.headers, **headers})
        answer: Document = self._client.send(sent)
        return answer

    def attempt(self, attempt_id: str, *, wait_s: float) -> Document:
        """Return an attempt once it has a verdict, or after up to `wait_s` seconds."""
        answer: Document = self._client.send(requests.attempt(attempt_id, wait_s=wait_s))
        return answer

    def events(self, attempt_id: str) -> Iterator[StreamEvent]:
        """Yield all events of an attempt until the attempt ends."""
        return self._client.events(attempt_id)

    def files(self, attempt: Document) -> list[BundleFileContent]:
        """Download a bundle, and return its files, or an empty list without artifacts."""
        if not attempt["artifacts"]:
            return []
        packed = io.BytesIO(self._client.bundle(attempt["id"]))
        with tarfile.open(fileobj=packed, mode="r:") as archive:
            read = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
            # In the archive, the files are in a folder with the bundle's name.
            return [
                _build_file(name.partition("/")[2], file.read()) for name, file in read if file is not None
            ]

    def cancel(self, attempt_id: str) -> None:
        """Cancel an attempt, unless the attempt has ended or the daemon never received it."""
        try:
            self._client.cancel(attempt_id)
        except (Conflict, NotFound):
            return


def _build_file(name: str, content: bytes) -> BundleFileContent:
    return BundleFileContent(name=name, content=content, sha256=hashlib.sha256(content).hexdigest())
