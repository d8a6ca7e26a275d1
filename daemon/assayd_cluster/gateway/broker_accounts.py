"""Manages a broker account for each node, which is created and removed together with the node's token.

The accounts are managed through RabbitMQ's management API: removing an account closes its connections, so a
stolen URL stops working when the token is revoked. Without the management API, all nodes share an account
created by the operator, which this module never changes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx

from assayd.errors import RequestError

API_TIMEOUT_S = 10.0
_ACCOUNT_REGEX = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}-([0-7][0-9A-HJKMNP-TV-Z]{25})")
"""Matches a node's account name, which consists of the node's name and the id of its token."""
_NOTHING = "^$"


class BrokerAccounts(Protocol):
    """The interface that manages the nodes' accounts at the broker."""

    async def create(self, node: str, token_id: str) -> str | None:
        """Return the URL of a new account, or None if all nodes share one account.

        Raises: RequestError ``broker.accounts``, like the other methods, if the broker's management API
        fails.
        """
        ...

    async def remove(self, node: str, token_id: str) -> None:
        """Remove an account and close its connections. A missing account isn't an error."""
        ...

    async def suspend(self, node: str) -> None:
        """Revoke the permission of a node's accounts to read the queue, and close their connections."""
        ...

    async def restore(self, node: str) -> None:
        """Grant a node's accounts permission to read the queue again."""
        ...

    async def list_readers(self) -> QueueReaderAccounts | None:
        """Return the accounts that can read the queue, or None if the accounts are unknown."""
        ...

    async def count_deliveries(self) -> Mapping[str, int]:
        """Return how many messages each node's open channels have received, by node.

        The numbers are up to five seconds old. Nodes without an open channel are missing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReaderAccounts:
    """The accounts that can read the queue: the nodes' accounts by token id, and other accounts by name."""

    tokens: Collection[str] = ()
    others: Sequence[str] = ()


class SharedAccount:
    """A single broker account, created by the operator, that all nodes use."""

    async def create(self, node: str, token_id: str) -> str | None:
        """Return None, because no account is created."""
        return None

    async def remove(self, node: str, token_id: str) -> None:
        """Do nothing, because all nodes share one account."""

    async def suspend(self, node: str) -> None:
        """Leave the shared account unchanged."""

    async def restore(self, node: str) -> None:
        """Leave the shared account unchanged."""

    async def list_readers(self) -> QueueReaderAccounts | None:
        """Return None, because the readers of the queue are unknown."""
        return None

    async def count_deliveries(self) -> Mapping[str, int]:
        """Return an empty mapping, because the readers of the queue are unknown."""
        return {}


class ManagedAccounts:
    """Broker accounts that are created through RabbitMQ's management API.

    Args:
        management_url: ``https://USER:PASSWORD@HOST:PORT`` of an account with the tag `administrator`.
        broker_url: the gateway's own AMQP URL; the nodes' URLs differ in user and password.
        queue: the only queue that a node can read.
        ca_file: the CA certificates for verifying the API; None means the system's certificates.
    """

    def __init__(self, management_url: str, broker_url: str, *, queue: str, ca_file: Path | None) -> None:
        parts = urlsplit(management_url)
        self._address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=""))
        self._login = httpx.BasicAuth(unquote(parts.username or ""), unquote(parts.password or ""))
        self._brokers = [urlsplit(url) for url in broker_url.split(";")]
        self._vhost = unquote(self._brokers[0].path.removeprefix("/")) or "/"
        self._queue = queue
        self._may_read = f"^{re.escape(queue)}$"
        self._verify = create_default_context(cafile=ca_file) if parts.scheme == "https" else False

    async def create(self, node: str, token_id: str) -> str | None:
        """Return the URL of a new account.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        name, password = build_account_name(node, token_id), secrets.token_urlsafe(32)
        await self._request_api("PUT", "users", name, json={**_hash_password(password), "tags": ""})
        await self._set_permissions(name, self._may_read)
        login = f"{quote(name)}:{password}"
        urls = [(broker, broker.netloc.rpartition("@")[2]) for broker in self._brokers]
        return ";".join(urlunsplit(broker._replace(netloc=f"{login}@{where}")) for broker, where in urls)

    async def remove(self, node: str, token_id: str) -> None:
        """Remove an account, which makes the broker close the account's connections.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        await self._request_api("DELETE", "users", build_account_name(node, token_id))

    async def suspend(self, node: str) -> None:
        """Revoke the read permission of a node's accounts, and close connections that still have it.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        for account in await self._list_accounts(node):
            await self._set_permissions(account, _NOTHING)
            await self._request_api("DELETE", "connections", "username", account)

    async def restore(self, node: str) -> None:
        """Grant a node's accounts read permission again.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        for account in await self._list_accounts(node):
            await self._set_permissions(account, self._may_read)

    async def _list_accounts(self, node: str) -> Sequence[str]:
        rights = await self._request_api("GET", "vhosts", self._vhost, "permissions")
        found = [_ACCOUNT_REGEX.fullmatch(right["user"]) for right in rights]
        return [
            each[0] for each in found if each is not None and each[0] == build_account_name(node, each[1])
        ]

    async def _set_permissions(self, account: str, read: str) -> None:
        rights = {"configure": _NOTHING, "write": _NOTHING, "read": read}
        await self._request_api("PUT", "permissions", self._vhost, account, json=rights)

    async def list_readers(self) -> QueueReaderAccounts | None:
        """Return the accounts that can read the queue, except administrators.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        rights = await self._request_api("GET", "vhosts", self._vhost, "permissions")
        users = await self._request_api("GET", "users")
        strong = {user["name"] for user in users if "administrator" in user["tags"]}
        able = [right["user"] for right in rights if _matches_queue_pattern(right["read"], self._queue)]
        ours = {name: found[1] for name in able if (found := _ACCOUNT_REGEX.fullmatch(name))}
        others = sorted(set(able) - set(ours) - strong)
        return QueueReaderAccounts(tokens=frozenset(ours.values()), others=others)

    async def count_deliveries(self) -> Mapping[str, int]:
        """Return how many messages each node's open channels have received, by node.

        Raises: RequestError ``broker.accounts``, if the management API fails.
        """
        columns = {"columns": "user,message_stats.deliver_get"}
        counts: Counter[str] = Counter()
        for channel in await self._request_api("GET", "vhosts", self._vhost, "channels", params=columns):
            found = _ACCOUNT_REGEX.fullmatch(channel.get("user", ""))
            if found is not None:
                node = found[0].removesuffix(f"-{found[1]}")
                # The statistics of a channel without messages are an empty list.
                counts[node] += (channel.get("message_stats") or {}).get("deliver_get", 0)
        return counts

    async def _request_api(self, method: str, *parts: str, **content: Any) -> Any:
        path = "/api/" + "/".join(quote(part, safe="") for part in parts)
        try:
            async with httpx.AsyncClient(
                base_url=self._address,
                auth=self._login,
                verify=self._verify,
                timeout=API_TIMEOUT_S,
                trust_env=False,
            ) as client:
                answer = await client.request(method, path, **content)
                if answer.status_code == httpx.codes.NOT_FOUND and method == "DELETE":
                    return None
                answer.raise_for_status()
                return answer.json() if method == "GET" else None
        except (httpx.HTTPError, ValueError) as problem:
            status = getattr(getattr(problem, "response", None), "status_code", type(problem).__name__)
            message = f"the broker's management API failed: {status}; see that it runs, then try again"
            raise RequestError("broker.accounts", message, retryable=True) from problem


def build_account_name(node: str, token_id: str) -> str:
    """Return the name of a node's broker account, ``NODE-TOKEN_ID``."""
    return f"{node}-{token_id}"


def _hash_password(password: str) -> dict[str, str]:
    """Return a password's hash in RabbitMQ's format, so that the plain password isn't sent."""
    salt = secrets.token_bytes(4)
    hashed = base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
    return {"password_hash": hashed, "hashing_algorithm": "rabbit_password_hashing_sha256"}


def _matches_queue_pattern(pattern: str, queue: str) -> bool:
    """Return whether a permission pattern matches the queue, or True if Python can't parse the pattern."""
    try:
        return re.search(pattern, queue) is not None
    except re.error:
        return True
