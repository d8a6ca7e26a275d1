"""The broker's identity is checked before it gets a password."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assayd_cluster.broker import create_celery

TLS = Path(__file__).parents[2] / "support" / "tls"


@contextmanager
def broker(address: str) -> Iterator[tuple[int, list[bytes]]]:
    """Serve TLS for localhost at an address; yields the port and the client's first bytes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "gateway.pem", TLS / "gateway.key")
    said: list[bytes] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    said.append(secure.recv(100))
            except OSError:
                said.append(b"")

    with socket.create_server((address, 0)) as listening:
        listening.settimeout(30)
        serving = threading.Thread(target=serve)
        serving.start()
        yield listening.getsockname()[1], said
        serving.join(30)


@pytest.mark.parametrize(
    ("address", "first", "problem"),
    [
        ("127.0.0.1", b"AMQP\x00\x00\x09\x01", OSError),
        ("127.0.0.2", b"", ssl.SSLCertVerificationError),
    ],
)
def test_broker_is_spoken_to_when_its_certificate_has_the_name(
    address: str, first: bytes, problem: type[OSError]
) -> None:
    with broker(address) as (port, said):
        url = f"amqps://node:secret@{address}:{port}/assayd"
        app = create_celery(url, queue="assayd.attempts", ca_file=TLS / "gateway-ca.pem")
        with pytest.raises(problem), app.connection_for_read(connect_timeout=5) as connection:
            connection._establish_connection()
    assert said == [first]
