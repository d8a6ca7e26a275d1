"""The API's socket: permissions, leftovers, and foreign ones."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.sockets import listen_loopback, listen_unix


def test_the_socket_has_its_mode_and_accepts(tmp_path: Path):
    path = tmp_path / "run" / "a.sock"
    with listen_unix(path, mode=0o660, group=None), socket.socket(socket.AF_UNIX) as client:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        client.connect(str(path))


def test_a_dead_daemons_socket_is_replaced(tmp_path: Path):
    path = tmp_path / "a.sock"
    listen_unix(path, mode=0o600, group=None).close()
    assert path.is_socket()
    listen_unix(path, mode=0o600, group=None).close()


def test_a_socket_that_answers_is_left_alone(tmp_path: Path):
    path = tmp_path / "a.sock"
    with listen_unix(path, mode=0o600, group=None):
        with pytest.raises(ConfigError) as caught:
            listen_unix(path, mode=0o600, group=None)
        assert caught.value.code == "socket.taken"
        assert path.is_socket()


def test_a_file_in_the_way_is_not_removed(tmp_path: Path):
    path = tmp_path / "a.sock"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="isn't a socket"):
        listen_unix(path, mode=0o600, group=None)
    assert path.read_text() == "precious"


def test_an_unknown_group_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="no-such-group"):
        listen_unix(tmp_path / "a.sock", mode=0o660, group="no-such-group")


def test_a_path_that_is_too_long_is_our_callers_trouble(tmp_path: Path):
    with pytest.raises(ConfigError, match="can't listen"):
        listen_unix(tmp_path / ("x" * 120), mode=0o660, group=None)


def test_the_metrics_port_accepts():
    with listen_loopback(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        accepted, address = server.accept()
        accepted.close()
        assert address == client.getsockname()


def test_a_metrics_port_that_is_in_use_is_named():
    with listen_loopback(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}, for metrics") as caught:
            listen_loopback(("127.0.0.1", port))
        assert caught.value.code == "metrics.unusable"
