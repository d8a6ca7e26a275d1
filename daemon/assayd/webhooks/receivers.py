"""Which URLs may be told, by what an operator has listed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address

from assayd.egress.addresses import is_public
from assayd.model.webhook import WebhookUrl

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Whom an operator lists: every URL at `url` or below it, signed with its own key.

    `private` are addresses beyond the public network that it may have. Without TLS it may have no others.
    """

    name: str
    url: WebhookUrl
    key: bytes = field(repr=False)
    private: tuple[Network, ...] = ()

    def reachable(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return those of the addresses of its host that may be connected to."""
        return tuple(address for address in addresses if self._may_have(address))

    def _may_have(self, text: str) -> bool:
        if is_public(text):
            return self.url.scheme == "https"
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self.private)


def receiver_of(url: WebhookUrl, receivers: Sequence[Receiver]) -> Receiver | None:
    """Return the receiver that a URL belongs to: the one with the longest path; None when none is listed."""
    covering = [receiver for receiver in receivers if receiver.url.covers(url)]
    return max(covering, key=lambda receiver: len(receiver.url.path), default=None)
