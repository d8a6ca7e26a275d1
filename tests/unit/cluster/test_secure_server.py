"""A gateway's API behind real TLS on loopback, and attacks before a token is shown."""

import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest
import uvloop

from assayd.api.bounded_http import OPERATORS_SHARE
from assayd.errors import ConfigError
from assayd_cluster import secure_server
from assayd_cluster.secure_server import CertificateFiles, listen_tcp
from support.hosts.secure_gateway import CONNECTIONS, SecureGateway, serving
from support.hosts.tls_gateway import CA_FILE, TLS


@pytest.fixture(params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SecureGateway]:
    with serving(tmp_path, request.param) as found:
        yield found


def gone(connection: socket.socket) -> bool:
    """Wait until the other end has closed, and ignore what it sends before."""
    try:
        while connection.recv(2**16):
            pass
    except (ConnectionError, ssl.SSLError):
        return True
    return True


def test_requests_follow_each_other_on_a_connection(served: SecureGateway) -> None:
    with served.client() as client:
        assert [client.get("/v1/attempts").status_code for _ in range(3)] == [200] * 3
        large = {"kind": "extractor", "payload": {"code": "#" * 500_000}}
        assert client.post("/v1/attempts", json=large).status_code == 202
        assert client.get("/healthz", headers={"Authorization": ""}).status_code == 401


def test_request_that_comes_with_the_handshake_is_answered(served: SecureGateway) -> None:
    with served.secured() as secured:
        secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert secured.recv(100).startswith(b"HTTP/1.1 200")


def test_plain_http_is_not_answered(served: SecureGateway) -> None:
    with served.connect() as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        said = b""
        with suppress(ConnectionError):
            said = plain.recv(100)
        assert b"HTTP" not in said


def test_nothing_older_than_tls_1_2_is_spoken(served: SecureGateway) -> None:
    old = ssl.create_default_context(cafile=CA_FILE)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with served.connect() as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(plain, server_hostname="localhost")


def test_handshake_that_does_not_come_is_not_waited_for(
    served: SecureGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_server, "HANDSHAKE_S", 0.2)
    with served.connect() as silent:
        assert gone(silent)
    with served.client() as client:
        assert client.get("/healthz").status_code == 200


def test_one_address_cannot_hold_all_connections(served: SecureGateway) -> None:
    most = (CONNECTIONS - CONNECTIONS // OPERATORS_SHARE) // 2 + 1
    with ExitStack() as held:
        for _ in range(most):
            secured = held.enter_context(served.secured())
        with served.connect() as one_too_many:
            assert gone(one_too_many)
        secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert secured.recv(100).startswith(b"HTTP/1.1 200")
    with served.client() as client:  # counted until both ends have closed
        while client_is_refused(client):
            os.sched_yield()


def test_connection_without_a_token_is_closed_after_some_seconds(
    served: SecureGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_server, "TOKEN_S", 0.3)
    with served.secured() as silent, served.secured() as asking, served.secured() as guessing:
        asking.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")  # open to anybody
        assert asking.recv(100).startswith(b"HTTP/1.1 200")
        guess = b"GET /v1/attempts HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer guess\r\n\r\n"
        guessing.sendall(guess)
        assert all(gone(each) for each in (silent, asking, guessing))


def test_connection_with_a_token_stays(served: SecureGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_server, "TOKEN_S", 0.3)
    ask = f"GET /v1/attempts HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode()
    with served.secured() as known:
        known.sendall(ask)
        assert known.recv(100).startswith(b"HTTP/1.1 200")
        with served.secured() as unknown:
            assert gone(unknown)  # its time is over, and so would the other's be
        known.sendall(ask)
        assert b"HTTP/1.1 200" in known.recv(2**16) + known.recv(2**16)


def test_operators_address_finds_a_place_when_all_others_are_held(served: SecureGateway) -> None:
    most = (CONNECTIONS - CONNECTIONS // OPERATORS_SHARE) // 2 + 1
    with served.client() as client:
        client.headers["Authorization"] = f"Bearer {served.operator}"
        assert client.get("/v1/attempts").status_code == 200
        with ExitStack() as held:
            for _ in range(most):
                held.enter_context(served.secured())


def client_is_refused(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code != 200
    except httpx.TransportError:
        return True


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n",
        b"POST /v1/attempts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n",
        b"GET /v1/attempts HTTP/1.1\r\nHost: a\r\n folded: x\r\n",
        b"GET /v1/attempts HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n",
        b"GET /v1/attempts HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n",
        b"GET /v1/attempts HTTP/1.1\nHost: a\n",
    ],
)
def test_head_that_two_could_read_differently_is_refused(served: SecureGateway, head: bytes) -> None:
    """A second request follows the header; it is never answered."""
    inner = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    with served.secured() as secured:
        token = f"Authorization: Bearer {served.token}\r\n\r\n".encode()
        secured.sendall(head + token + b"0\r\n\r\n" + inner)
        answers = b""
        with suppress(ConnectionError, TimeoutError):
            while piece := secured.recv(2**16):
                answers += piece
    assert answers.startswith(b"HTTP/1.1 4")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_endless_head_is_cut_off(served: SecureGateway) -> None:
    with served.secured() as secured:
        with suppress(OSError):  # closed already
            secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: ")
            for _ in range(64):
                secured.sendall(b"x" * 2**14)
        assert gone(secured)


def test_certificate_is_taken_anew_when_its_files_change(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"
    shutil.copy(TLS / "gateway.pem", certificate)
    shutil.copy(TLS / "gateway.key", key)
    now = [0.0]
    files = CertificateFiles(certificate, key, lambda: now[0])
    first = files._seen
    key.write_text("nothing")
    now[0] += 10
    files.reload_if_changed()
    assert files._seen == first  # what cannot be used changes nothing
    shutil.copy(TLS / "host.key", key)
    now[0] += 10
    files.reload_if_changed()
    assert files._seen == first  # nor does a pair that does not fit
    shutil.copy(TLS / "host.pem", certificate)
    now[0] += 10
    files.reload_if_changed()
    assert files._seen != first


def test_files_that_cannot_be_used_are_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be used for TLS"):
        CertificateFiles(tmp_path / "none", tmp_path / "none")
    with pytest.raises(ConfigError, match="can't be used for TLS"):
        CertificateFiles(TLS / "gateway.pem", TLS / "host.key")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "192.0.2.1:1", ""])
def test_address_that_cannot_be_listened_on_is_told(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        listen_tcp(address)


def test_address_of_ipv6_is_listened_on() -> None:
    with closing(listen_tcp("[::1]:0")) as listener:
        assert listener.family == socket.AF_INET6


def test_gateways_of_one_host_share_an_address_and_another_program_is_refused_it() -> None:
    with closing(listen_tcp("127.0.0.1:0")) as first:
        address = first.getsockname()
        with closing(listen_tcp(f"127.0.0.1:{address[1]}")) as second:
            assert second.getsockname() == address
        with pytest.raises(OSError, match="in use"):
            socket.create_server(address)


def test_thousands_of_pipelined_requests_without_a_token_are_refused(served: SecureGateway) -> None:
    with served.secured() as secured:
        with suppress(OSError):
            secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 12_000)
        answers = b""
        with suppress(ConnectionError, ssl.SSLError):
            while piece := secured.recv(2**16):
                answers += piece
    assert b"HTTP/1.1 200" not in answers
    with served.client() as client:
        assert client.get("/healthz").status_code == 200
