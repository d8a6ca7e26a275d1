"""Decides which addresses are public, with pure functions.

This module has a separate table, because Python 3.11's `ipaddress` treats 64:ff9b::/96, 2002::/16 and
fec0::/10 as global. In IPv6, only 2000::/3 is assigned to global unicast; therefore, all other addresses
are rejected.

Source: the special-purpose address registries of IANA; RFC 6890, 6052, 3056, 4380.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_address

Public = Callable[[str], bool]
"""Returns whether an address, in a resolver's notation, is public."""

_NOT_PUBLIC_4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space of carriers (NAT)
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; cloud metadata services
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_HANDED_OUT_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address
        "3fff::/20",  # documentation
    )
)


def is_public(text: str) -> bool:
    """Return whether a string is a public address."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if address.version == 4:
        return not any(address in block for block in _NOT_PUBLIC_4)
    return address in _HANDED_OUT_6 and not any(address in block for block in _NOT_PUBLIC_6)
