"""Sends a node's requests to the daemon on its host, through the project's own client, and to the gateway."""

from __future__ import annotations

import hashlib
import io
import json
import ssl
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from assayd.errors import AssaydError
from assayd.model.trace_context import TraceContext
from assayd_client import requests
from assayd_client.answers import StreamEvent
from assayd_client.blocking import PlainClient
from assayd_client.errors import ClientError, Conflict, NotFound
from assayd_client.requests import ClientRequest
from assayd_cluster.documents import CancelledRuns, ClaimedRun, HeartbeatAnswer, NodeHeartbeat

Document = dict[str, Any]

D = TypeVar("D", bound=BaseModel)

_SOCKET = "http+unix://"
MAX_RESPONSE_S = 20.0
"""Maximum number of seconds for a response of the gateway, in addition to the requested wait."""


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


class GatewayUnavailable(AssaydError):
    """An error raised if the gateway fails temporarily, so that the request can be repeated."""


class RunHeld(AssaydError):
    """An error raised if another node holds the attempt."""


class RunOver(AssaydError):
    """An error raised if the run needs no further work on this node."""


class RequestRefused(AssaydError):
    """An error raised if the gateway refused the request, so that a retry would have the same result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedRun:
    """A run of an attempt, as the gateway numbers them across all nodes."""

    attempt: str
    number: int


class GatewayClient:
    """A thread-safe client of the gateway.

    Raises: GatewayUnavailable, and the errors that each method lists.
    """

    def __init__(self, name: str, address: str, *, token: str, ca_file: Path | None = None) -> None:
        socket = address.removeprefix(_SOCKET) if address.startswith(_SOCKET) else None
        transport = httpx.HTTPTransport(
            verify=ssl.create_default_context(cafile=ca_file) if socket is None else False,
            uds=socket,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=30),
        )
        self._http = httpx.Client(
            transport=transport,
            base_url="http://gateway" if socket is not None else address,
            timeout=MAX_RESPONSE_S,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        self._node = f"/v1/nodes/{quote(name)}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def beat(self, beat: NodeHeartbeat) -> HeartbeatAnswer:
        """Report the state of this node, and return whether the node should consume messages."""
        return self._parse_answer(
            HeartbeatAnswer, self._send_request("PUT", self._node, json=beat.model_dump(mode="json"))
        )

    def claim(self, attempt: str, ticket: str) -> ClaimedRun:
        """Claim a run of an attempt. Raises: RunHeld, RunOver, RequestRefused."""
        asked = {"attempt": attempt, "ticket": ticket}
        return self._parse_answer(ClaimedRun, self._send_request("POST", f"{self._node}/runs", json=asked))

    def wait_for_cancelled(self, wait_s: float) -> Sequence[str]:
        """Return the attempts on this node that must be cancelled, after waiting up to `wait_s` for one."""
        path, query = f"{self._node}/cancelled", {"wait_s": f"{wait_s:g}"}
        answer = self._send_request("GET", path, params=query, timeout=wait_s + MAX_RESPONSE_S)
        return self._parse_answer(CancelledRuns, answer).attempts

    def send_events(self, run: AssignedRun, events: Sequence[Mapping[str, object]]) -> None:
        """Send events of a running run. Raises: RunOver, RequestRefused."""
        self._send_request("POST", f"{self._build_run_path(run)}/events", json={"events": list(events)})

    def send_file(self, run: AssignedRun, sha256: str, content: bytes) -> None:
        """Send a large file of the bundle, before the verdict. Raises: RunOver, RequestRefused."""
        self._send_request("PUT", f"{self._build_run_path(run)}/files/{sha256}", content=content)

    def send_verdict(self, run: AssignedRun, verdict: Mapping[str, object]) -> None:
        """Send the verdict, or the report that the run is lost. Raises: RunOver, RequestRefused."""
        self._send_request("PUT", f"{self._build_run_path(run)}/verdict", json=verdict)

    def _build_run_path(self, run: AssignedRun) -> str:
        return f"{self._node}/runs/{quote(run.attempt)}/{run.number}"

    def _parse_answer(self, document: type[D], answer: httpx.Response) -> D:
        try:
            return document.model_validate_json(answer.content, extra="ignore")  # a newer gateway says more
        except ValidationError as problem:
            message = f"the gateway's answer doesn't match the contract: {problem}"
            raise GatewayUnavailable("gateway.unreadable", message, retryable=True) from problem

    def _send_request(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **content)
        except httpx.TransportError as problem:
            what = str(problem) or type(problem).__name__
            message = f"the gateway doesn't answer: {what}; check its log and the network"
            raise GatewayUnavailable("gateway.unreachable", message, retryable=True) from problem
        if response.is_error:
            raise _read_error(response)
        return response


def _read_error(response: httpx.Response) -> AssaydError:
    code, message = "http", f"HTTP status {response.status_code}"
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # not from the gateway itself, but from its server or a proxy
    match response.status_code:
        case 409:
            return RunHeld(code, message, retryable=True)
        case 410:
            return RunOver(code, message)
        case 408 | 425 | 429:
            return GatewayUnavailable(code, message, retryable=True)
        case status if status >= 500:
            return GatewayUnavailable(code, message, retryable=True)
    return RequestRefused(code, message)
