from __future__ import annotations

from ipaddress import ip_network

import pytest

from assayd.model.hosts import parse_webhook_url
from assayd.webhooks import Receiver, find_receiver


def receiver(url: str = "https://ci.example/", *private: str, name: str = "ci") -> Receiver:
    networks = tuple(ip_network(one) for one in private)
    return Receiver(name=name, url=parse_webhook_url(url), key=b"k" * 32, private=networks)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.0.1",
        "::1",
        "fe80::1%eth0",
        "::ffff:127.0.0.1",
        "fd00::1",
        "junk",
    ],
)
def test_address_that_is_not_public_is_reached_where_listed_only(address: str) -> None:
    assert receiver().allowed_addresses([address]) == ()
    assert receiver("https://ci.example/", "192.168.7.0/24").allowed_addresses([address]) == ()


def test_listed_network_and_public_addresses_are_reached() -> None:
    listed = receiver("https://ci.example/", "10.1.2.0/24", "fd00::/8")
    assert listed.allowed_addresses(["10.1.2.3", "10.1.3.3", "fd00::1", "93.184.216.34"]) == (
        "10.1.2.3",
        "fd00::1",
        "93.184.216.34",
    )


def test_without_tls_only_listed_addresses_are_reached() -> None:
    listed = receiver("http://ci.example/", "10.1.2.3")
    assert listed.allowed_addresses(["93.184.216.34", "10.1.2.3"]) == ("10.1.2.3",)


def test_longest_listed_path_decides_who_signs() -> None:
    all_of_it, part = receiver(name="all"), receiver("https://ci.example/team/", name="part")
    url = parse_webhook_url("https://ci.example/team/a")
    assert find_receiver(url, (all_of_it, part)) is part
    assert find_receiver(url, (part, all_of_it)) is part
    assert find_receiver(parse_webhook_url("https://ci.example/a"), (all_of_it, part)) is all_of_it
    assert find_receiver(parse_webhook_url("https://other.example/"), (all_of_it, part)) is None


def test_key_is_not_shown() -> None:
    assert "kkk" not in repr(receiver())
