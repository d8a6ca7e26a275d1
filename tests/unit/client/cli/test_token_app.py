"""`assay token`, `assay nodes` and `assay node` with a gateway."""

import asyncio
import json
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from assayd_client.cli import main
from assayd_cluster.tables import nodes
from support.daemons.fake_service import FakeService
from support.daemons.server import serving as serving_daemon
from support.hosts.secure_gateway import SecureGateway, serving
from support.hosts.tls_gateway import CA_FILE


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with serving(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest.fixture
def assay(gateway: SecureGateway, tmp_path: Path) -> Callable[..., int]:
    """Return a function that runs a command with an operator's token, or with a file's."""

    def run(*words: str, token_file: Path | None = None) -> int:
        file = token_file or tmp_path / "operator"
        if token_file is None:
            file.touch(0o600)
            file.write_text(gateway.operator)
        url = f"https://localhost:{gateway.port}"
        return main(["--server", url, "--token-file", str(file), "--ca-file", str(CA_FILE), *words])

    return run


def test_token_is_printed_alone_and_once(assay, capsys) -> None:
    assert assay("token", "create", "--name", "ci-1") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("assay_")
    assert shown.out.count("\n") == 1
    assert "'ci-1' of tenant default (uid 429496729" in shown.err
    assert assay("token", "list") == 0
    assert shown.out.strip() not in capsys.readouterr().out


def test_token_in_a_file_is_its_owners_and_works(assay, tmp_path: Path, capsys) -> None:
    file = tmp_path / "token"
    assert (
        assay("token", "create", "--name", "ci-2", "--tenant", "two", "--scope", "read", "--out", str(file))
        == 0
    )
    assert capsys.readouterr().out == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert assay("list", token_file=file) == 0
    source = tmp_path / "x.py"
    source.write_text("x = 1\n")
    capsys.readouterr()
    assert assay("validate", "extractor", str(source), "--sample-path", "/a", token_file=file) == 2
    assert "is read-only" in capsys.readouterr().err


class Accounts:
    """A broker's accounts, all with the same URL."""

    async def create(self, node: str, token_id: str) -> str:
        return f"amqps://{node}:secret@broker/assayd"


def test_broker_account_of_a_node_is_written_beside_its_token(
    assay, gateway: SecureGateway, tmp_path: Path, capsys
) -> None:
    file, url = tmp_path / "token", tmp_path / "token.broker-url"
    shared, gateway.app.state.broker_accounts = gateway.app.state.broker_accounts, Accounts()
    try:
        assert assay("token", "create", "--name", "n9", "--node", "n9", "--out", str(file)) == 0
        assert assay("token", "create", "--name", "n9", "--node", "n9") == 0
    finally:
        gateway.app.state.broker_accounts = shared
    assert url.read_text() == "amqps://n9:secret@broker/assayd\n"
    assert stat.S_IMODE(url.stat().st_mode) == 0o600
    shown = capsys.readouterr()
    assert [line[:6] for line in shown.out.splitlines()] == ["assay_", "amqps:"]
    assert str(url) in shown.err


def test_node_that_shares_the_brokers_account_gets_a_token_alone(assay, tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert assay("token", "create", "--name", "n8", "--node", "n8", "--out", str(file)) == 0
    assert [each.name for each in tmp_path.glob("token*")] == ["token"]


def test_file_that_is_there_is_not_overwritten_and_no_token_made(assay, tmp_path: Path, capsys) -> None:
    file = tmp_path / "token"
    file.write_text("mine")
    assert assay("token", "create", "--name", "never-made", "--out", str(file)) == 2
    assert file.read_text() == "mine"
    assert assay("token", "list", "--json") == 0
    assert "never-made" not in capsys.readouterr().out


def test_file_of_a_token_that_was_refused_is_removed(assay, tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert assay("token", "create", "--name", "x", "--scope", "root", "--out", str(file)) == 2
    assert not file.exists()


def test_token_of_a_node_is_bound_to_it(assay, capsys) -> None:
    assert assay("token", "create", "--name", "worker", "--node", "n1") == 0
    assert "of node n1: node" in capsys.readouterr().err


def test_revoked_by_name_or_beginning_and_only_where_one_is_meant(assay, tmp_path: Path, capsys) -> None:
    file = tmp_path / "token"
    assay("token", "create", "--name", "gone", "--out", str(file))
    assay("token", "create", "--name", "twice")
    assay("token", "create", "--name", "twice")
    assert assay("token", "revoke", "gone") == 0
    assert assay("list", token_file=file) == 2
    assert "was revoked" in capsys.readouterr().err
    assert assay("token", "revoke", "twice") == 2
    assert "2 active tokens" in capsys.readouterr().err
    assert assay("token", "revoke", "gone") == 2  # those that are not revoked


def test_nodes_are_listed_drained_and_resumed(assay, gateway: SecureGateway, capsys) -> None:
    row = {
        "name": "n1",
        "beat_at": int(time.time() * 1_000_000),
        "capacity": 4,
        "consumes": 1,
        "why": "",
        "version": "0.1.0",
        "engine": "oci crun 1.14",
        "images": "{}",
        "runs": "[]",
    }
    written = asyncio.run_coroutine_threadsafe(
        gateway.database.write(lambda connection: connection.execute(insert(nodes), row)), gateway.loop
    )
    written.result(10)
    assert assay("nodes") == 0
    shown = capsys.readouterr().out
    assert "n1" in shown
    assert "0 of 4" in shown
    assert assay("node", "drain", "n1") == 0
    assert capsys.readouterr().out == "n1: accepts no new attempts; 0 in progress\n"
    assert assay("nodes", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "draining"
    assert assay("node", "resume", "n1") == 0
    assert capsys.readouterr().out == "n1: ready\n"
    assert assay("node", "drain", "n2") == 2


def test_who_is_no_operator_is_told(assay, gateway: SecureGateway, tmp_path: Path, capsys) -> None:
    file = tmp_path / "plain"
    file.touch(0o600)
    file.write_text(gateway.token)
    assert assay("token", "list", token_file=file) == 2
    assert "only operators may do this" in capsys.readouterr().err
    assert assay("nodes", token_file=file) == 2
    assert "has no access to nodes" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["token", "list"], ["nodes"], ["node", "drain", "x"]])
def test_daemon_of_one_host_is_told_from_a_gateway(tmp_path: Path, capsys, words: list[str]) -> None:
    with serving_daemon(FakeService(), tmp_path / "s") as path:
        assert main(["--socket", str(path), *words]) == 2
    assert "is a single-host daemon" in capsys.readouterr().err
