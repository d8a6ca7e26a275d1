"""Reads from the exception of submitted code that it was after the network, and which host it wanted.

    urllib3   HTTPSConnectionPool(host='api.example.com', port=443): …      api.example.com:443
    aiohttp   Cannot connect to host api.example.com:443 ssl:default        api.example.com:443

What an exception says is the guest's own word: it words a hint, and decides nothing.
"""

from __future__ import annotations

import re

from assayd.findings.network_rules import WORDINGS, NetworkRule

_TYPES = frozenset(
    {
        "ClientConnectorError", "ClientHttpProxyError", "ClientProxyConnectionError", "ConnectError",
        "ConnectTimeout", "ConnectTimeoutError", "ConnectionError", "ConnectionRefusedError",
        "ConnectionResetError", "MaxRetryError", "NameResolutionError", "NewConnectionError", "ProxyError",
        "ReadTimeout", "RemoteDisconnected", "SSLError", "URLError", "gaierror",
    }
)  # fmt: skip
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"host='(?P<host>[^'\s]{1,253})', port=(?P<port>\d{1,5})",
        r"[Cc]onnect to host (?P<host>[^\s:]{1,253}):(?P<port>\d{1,5})",
        r"\('(?P<host>[^'\s]{1,253})', (?P<port>\d{1,5})\)",
        r"https?://(?P<host>[^\s/:'\"\\]{1,253})(?::(?P<port>\d{1,5}))?",
    )
)
_REACHES = "The code reaches for the network"
_HINT = (
    f"{WORDINGS[NetworkRule.BLOCKED].hint} Under such a profile ask for listed hosts only, "
    "with a client that takes its proxy from HTTP_PROXY and HTTPS_PROXY."
)


_IN_TESTS = {
    "httpx": "httpx.Client(transport=httpx.MockTransport(handler))",
    "aiohttp": "unittest.mock.AsyncMock in the place of the session",
    "requests": 'unittest.mock.patch("requests.get"), or of the session\'s method',
}
"""How each client is given made-up answers."""


def network_hint(error_type: str, message: str, text: str = "") -> str | None:
    """Return what to do about an exception of the network's; None for any other.

    Args:
        error_type: the exception's class.
        message: its text.
        text: the code that it came from; in tests a client can be given made-up answers.
    """
    if error_type.rpartition(".")[2] not in _TYPES:
        return None
    place = _place(message)
    reaches = f"{_REACHES}{f' ({place})' if place else ''}."
    client = next((name for name in _IN_TESTS if name in text), None)
    if client is not None and "def test_" in text:
        return f"{reaches} In a test give the client made-up answers: {_IN_TESTS[client]}."
    return f"{reaches} {_HINT}"


def reaches_for_network(suggestion: str | None) -> bool:
    """Return whether a suggestion is one of `network_hint`."""
    return suggestion is not None and suggestion.startswith(_REACHES)


def _place(message: str) -> str | None:
    for pattern in _PLACES:
        if (match := pattern.search(message)) is not None:
            port = match["port"]
            return match["host"] + (f":{port}" if port else "")
    return None
