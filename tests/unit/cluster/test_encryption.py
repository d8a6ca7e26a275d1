"""Connections that leave this host are encrypted."""

from collections.abc import Callable

import pytest

from assayd.errors import ConfigError
from assayd_cluster.settings import (
    require_encrypted_broker,
    require_encrypted_database,
    require_encrypted_gateway,
)

Require = Callable[[str, str], None]


@pytest.mark.parametrize(
    ("require", "url"),
    [
        (require_encrypted_broker, "amqp://node:secret@broker.example.org/assayd"),
        (require_encrypted_broker, "amqps://broker/assayd;amqp://node:secret@other/assayd"),
        (require_encrypted_broker, "redis://127.0.0.1/"),
        (require_encrypted_gateway, "http://gateway.example.org:8443"),
        (require_encrypted_gateway, "http://127.0.0.1.example.org"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@db/assayd"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@db/assayd?sslmode=require"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@/assayd?host=/run&host=db"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@localhost/assayd?hostaddr=10.0.0.1"),
        (require_encrypted_database, "no such url"),
    ],
)
def test_address_elsewhere_without_tls_is_refused(require: Require, url: str) -> None:
    with pytest.raises(ConfigError, match="the_setting: ") as caught:
        require(url, "the_setting")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("require", "url"),
    [
        (require_encrypted_broker, "amqps://node:secret@broker.example.org/assayd"),
        (require_encrypted_broker, "amqp://node:secret@127.0.0.1:5672/assayd"),
        (require_encrypted_gateway, "https://gateway.example.org:8443"),
        (require_encrypted_gateway, "http+unix:///run/assayd/gateway.sock"),
        (require_encrypted_gateway, "http://[::1]:8000"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@db/assayd?sslmode=verify-full"),
        (require_encrypted_database, "postgresql+psycopg://u@/assayd?host=/run/postgresql&port=5433"),
        (require_encrypted_database, "postgresql+psycopg://u:secret@localhost/assayd"),
    ],
)
def test_address_with_tls_or_on_this_host_is_taken(require: Require, url: str) -> None:
    require(url, "the_setting")
    assert url
