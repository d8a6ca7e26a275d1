from __future__ import annotations

import socket
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_compat.serving import (
    ListenAddress,
    format_address,
    open_listener,
    parse_listen_address,
    parse_policies,
)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:8080", ListenAddress(host="127.0.0.1", port=8080)),
        ("localhost:0", ListenAddress(host="127.0.0.1", port=0)),
        (":8080", ListenAddress(host="127.0.0.1", port=8080)),
        ("[::1]:8080", ListenAddress(host="::1", port=8080)),
        ("unix:/run/x.sock", ListenAddress(path=Path("/run/x.sock"))),
    ],
)
def test_place_is_read(text: str, place: ListenAddress) -> None:
    assert parse_listen_address(text) == place


@pytest.mark.parametrize("text", ["", "8080", "127.0.0.1:x", "127.0.0.1:65536", "unix:"])
def test_place_that_can_not_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(RequestError, match=r"isn't HOST:PORT or unix:PATH, e\.g\. 127\.0\.0\.1:8080"):
        parse_listen_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:8080", "192.0.2.1:8080", "[::]:8080", "judge.example:8080"])
def test_address_that_others_reach_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="isn't a loopback address"):
        parse_listen_address(text)


def test_socket_is_its_owners_alone_and_a_leftover_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "compat.sock"
    open_listener(ListenAddress(path=path)).close()
    with open_listener(ListenAddress(path=path)) as listener:
        assert path.stat().st_mode & 0o777 == 0o600
        assert format_address(listener) == f"unix:{path}"


def test_socket_that_is_in_use_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "compat.sock"
    with open_listener(ListenAddress(path=path)), pytest.raises(RequestError, match="already in use"):
        open_listener(ListenAddress(path=path))


def test_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RequestError, match=f"127.0.0.1:{port}: Address already in use"):
            open_listener(ListenAddress(host="127.0.0.1", port=port))


def test_policies_are_by_language() -> None:
    assert parse_policies(["python=testing", "bash=mine"]) == {"python": "testing", "bash": "mine"}


@pytest.mark.parametrize("text", ["python", "python=", "cobol=x"])
def test_policy_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="isn't LANGUAGE=NAME; the languages are python, pytest"):
        parse_policies([text])
