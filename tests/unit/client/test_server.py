"""The three clients and `assay` with the API behind TLS."""

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client import (
    AddressOptions,
    AsyncClient,
    Client,
    DaemonUnreachable,
    PlainClient,
    Refused,
)
from assayd_client.cli import main
from support.hosts.tls_gateway import CA_FILE, TOKEN, TlsGateway, tls_gateway

GOOD = {"kind": "extractor", "payload": {"code": "x = 1"}}


@pytest.fixture(scope="module")
def gateway() -> Iterator[TlsGateway]:
    with tls_gateway() as serving:
        yield serving


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(TOKEN)
    return path


@pytest.fixture
def options(gateway: TlsGateway, token_file: Path) -> AddressOptions:
    return AddressOptions(server=gateway.url, token_file=token_file, ca_file=CA_FILE)


async def test_all_three_clients_reach_a_gateway(options: AddressOptions) -> None:
    with PlainClient(options) as plain:
        attempt = plain.submit(GOOD, wait_s=5)
        assert [event.kind for event in plain.events(attempt["id"])] == ["state", "finished"]
    with Client(options) as client:
        assert client.attempt(attempt["id"]).verdict == "validated"
    async with AsyncClient(options) as asynchronous:
        assert (await asynchronous.attempt(attempt["id"])).bundle_path is None


def test_token_travels_in_its_header_alone(gateway: TlsGateway, options: AddressOptions) -> None:
    with PlainClient(options) as plain, Client(options) as client:
        plain.kinds()
        client.kinds()
    for path, headers in gateway.asked[-2:]:
        assert headers[b"authorization"] == f"Bearer {TOKEN}".encode()
        assert headers[b"host"] == f"localhost:{gateway.port}".encode()
        assert TOKEN not in path


def test_proxies_and_netrc_of_the_environment_have_no_say(
    options: AddressOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine localhost login me password hush\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with Client(options) as client:
        assert client.kinds().kinds


async def test_token_that_is_refused_is_told_by_all_three(options: AddressOptions, token_file: Path) -> None:
    token_file.write_text("another")
    with PlainClient(options) as plain, pytest.raises(Refused) as refused:
        plain.kinds()
    assert (refused.value.status, refused.value.code) == (401, "token.refused")
    with Client(options) as client, pytest.raises(Refused):
        client.kinds()
    async with AsyncClient(options) as asynchronous:
        with pytest.raises(Refused):
            await asynchronous.kinds()


async def test_certificate_that_is_not_known_is_told_with_its_remedy(
    gateway: TlsGateway, token_file: Path
) -> None:
    unknown = AddressOptions(server=gateway.url, token_file=token_file)
    with PlainClient(unknown) as plain, pytest.raises(DaemonUnreachable, match="--ca-file") as untrusted:
        plain.kinds()
    assert untrusted.value.code == "server.certificate"
    with Client(unknown) as client, pytest.raises(DaemonUnreachable, match="isn't trusted"):
        client.kinds()
    async with AsyncClient(unknown) as asynchronous:
        with pytest.raises(DaemonUnreachable, match="isn't trusted"):
            await asynchronous.kinds()


def test_certificate_of_another_name_is_not_believed(gateway: TlsGateway, token_file: Path) -> None:
    other = AddressOptions(server=f"https://127.0.0.2:{gateway.port}", token_file=token_file, ca_file=CA_FILE)
    with PlainClient(other) as plain, pytest.raises(DaemonUnreachable):
        plain.kinds()


def test_nothing_older_than_tls_1_2_is_spoken(gateway: TlsGateway, options: AddressOptions) -> None:
    from assayd_client.address import get_tls_context

    with PlainClient(options) as plain:
        assert get_tls_context(plain.address).minimum_version is ssl.TLSVersion.TLSv1_2


def test_gateway_that_is_not_there_is_told(token_file: Path) -> None:
    nobody = AddressOptions(server="https://localhost:1", token_file=token_file, ca_file=CA_FILE)
    with PlainClient(nobody) as plain, pytest.raises(DaemonUnreachable, match="https://localhost:1"):
        plain.kinds()
    with Client(nobody) as client, pytest.raises(DaemonUnreachable, match="--server"):
        client.kinds()


@pytest.fixture
def words(gateway: TlsGateway, token_file: Path) -> list[str]:
    return ["--server", gateway.url, f"--token-file={token_file}", "--ca-file", str(CA_FILE)]


def test_assay_takes_a_server_anywhere_on_the_line(words: list[str], capsys) -> None:
    assert main([*words, "list", "--json"]) == 0
    assert main(["list", *words, "--json"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:1], capsys.readouterr()
    assert first
    assert second.err == ""


def test_assay_takes_all_of_the_environment(
    gateway: TlsGateway, token_file: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.delenv("ASSAY_SOCKET", raising=False)
    monkeypatch.setenv("ASSAY_SERVER", gateway.url)
    monkeypatch.setenv("ASSAY_TOKEN_FILE", str(token_file))
    monkeypatch.setenv("ASSAY_CA_FILE", str(CA_FILE))
    assert main(["kinds"]) == 0
    assert "extractor" in capsys.readouterr().out


def test_commands_of_groups_reach_a_server(words: list[str], capsys) -> None:
    assert main(["policy", "list", *words]) == 0
    assert "extractor" in capsys.readouterr().out


def test_bundle_on_another_host_is_fetched_not_looked_at(words: list[str], tmp_path: Path, capsys) -> None:
    source = tmp_path / "x.py"
    source.write_text("x = 1\n")
    assert main([*words, "validate", "extractor", str(source), "--sample-path", "/a"]) == 0
    assert "Bundle: assay artifacts 0" in " ".join(capsys.readouterr().out.split())


def test_backup_of_another_host_is_refused(words: list[str], tmp_path: Path, capsys) -> None:
    assert main([*words, "backup", str(tmp_path / "b")]) == 2
    assert "files of this host" in capsys.readouterr().err


def test_token_file_of_mcp_is_its_own() -> None:
    from assayd_client.cli import move_address_options

    asked = move_address_options(["mcp", "--http", "1", "--token-file", "own", "--server", "https://h"])
    sent = move_address_options(["list", "--token-file", "sent", "--server", "https://h"])
    assert asked == ["--server", "https://h", "mcp", "--http", "1", "--token-file", "own"]
    assert sent == ["--token-file", "sent", "--server", "https://h", "list"]


def test_errors_of_files_are_one_line_and_exit_2(gateway: TlsGateway, tmp_path: Path, capsys) -> None:
    assert main(["list", "--server", gateway.url, "--token-file", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_socket_loads_nothing_of_tls(tmp_path: Path) -> None:
    import subprocess

    program = "import sys\nfrom assayd_client.cli import main\nmain(['--socket', '/nowhere', 'list'])\n"
    program += "print('ssl' in sys.modules, 'httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_client_reads_the_files_at_its_beginning(gateway: TlsGateway, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="token file"):
        Client(AddressOptions(server=gateway.url, token_file=tmp_path / "none"))
