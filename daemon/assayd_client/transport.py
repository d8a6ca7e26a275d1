"""The HTTP library's clients for an address: over its socket, or over TLS with a token."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from assayd_client.address import Address, ServerChoice

if TYPE_CHECKING:
    import httpx


def blocking_http(address: Address) -> httpx.Client:
    """Return the library's blocking client. Raises: RequestError, for files that cannot be used."""
    import httpx

    return httpx.Client(transport=httpx.HTTPTransport(**_transport(address)), **_client(address))


def async_http(address: Address) -> httpx.AsyncClient:
    """Return the library's client for asyncio. Raises: RequestError, for files that cannot be used."""
    import httpx

    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(**_transport(address)), **_client(address))


def _transport(address: Address) -> dict[str, Any]:
    if not isinstance(address, ServerChoice):
        # No TLS on a socket; reading the system's certificates for it would take most of a short call.
        return {"uds": str(address.path), "verify": False}
    from assayd_client.secure import tls_context

    verify: ssl.SSLContext = tls_context(address)
    return {"verify": verify}


def _client(address: Address) -> dict[str, Any]:
    """Return base and authorization; proxies and .netrc of the environment have no say."""
    if not isinstance(address, ServerChoice):
        return {"base_url": "http://assayd"}
    return {
        "base_url": f"https://{address.authority}",
        "auth": _bearer(address),
        "trust_env": False,
        "follow_redirects": False,
    }


def _bearer(server: ServerChoice) -> Callable[[httpx.Request], httpx.Request]:
    from assayd_client.secure import authorization

    authorization(server)  # a file that cannot be used is told at once

    def authorize(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = authorization(server)
        return request

    return authorize
