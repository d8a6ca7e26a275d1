from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client import AddressOptions, ServerChoice, SocketChoice, find_daemon

URL = "https://gateway.example:8443"
FILE = {"ASSAY_TOKEN_FILE": "/t"}


def test_named_server_comes_before_a_socket_of_the_environment() -> None:
    found = find_daemon(
        AddressOptions(server=URL, token_file="/mine", ca_file="/ca"), {"ASSAY_SOCKET": "/s", **FILE}
    )
    assert found == ServerChoice(
        host="gateway.example", port=8443, source="--server", token_file=Path("/mine"), ca_file=Path("/ca")
    )
    assert str(found) == f"{URL} (--server)"


def test_server_of_the_environment_has_its_files_there_too() -> None:
    found = find_daemon(None, {"ASSAY_SERVER": "https://[::1]", **FILE, "ASSAY_CA_FILE": "/ca"})
    assert isinstance(found, ServerChoice)
    assert (found.authority, found.port, found.token_file, found.ca_file) == (
        "[::1]",
        443,
        Path("/t"),
        Path("/ca"),
    )


def test_named_socket_comes_before_a_server_of_the_environment() -> None:
    environ = {"ASSAY_SERVER": URL, **FILE}
    assert find_daemon("/s", environ) == SocketChoice(path=Path("/s"), source="--socket")
    assert find_daemon(AddressOptions(socket="/s"), environ) == find_daemon("/s", environ)


@pytest.mark.parametrize(
    ("options", "environ", "said"),
    [
        (AddressOptions(socket="/s", server=URL), {}, "--socket and --server name different daemons"),
        (None, {"ASSAY_SOCKET": "/s", "ASSAY_SERVER": URL, **FILE}, "ASSAY_SOCKET and ASSAY_SERVER"),
        (AddressOptions(server=URL), {}, "needs a token"),
        (AddressOptions(token_file="/t"), {}, "--token-file applies only to a server"),
        (
            AddressOptions(socket="/s", ca_file="/c"),
            {"ASSAY_SERVER": URL, **FILE},
            "--ca-file applies only to a server",
        ),
        (AddressOptions(server="http://gateway.example"), FILE, "https only"),
        (AddressOptions(server="gateway.example:8443"), FILE, "https only"),
        (AddressOptions(server="https://"), FILE, "only a host and a port"),
        (AddressOptions(server="https://h:0"), FILE, "only a host and a port"),
        (AddressOptions(server="https://h:99999"), FILE, "isn't a URL"),
        (AddressOptions(server="https://h/v1"), FILE, "only a host and a port"),
        (AddressOptions(server="https://h?x=1"), FILE, "only a host and a port"),
        (AddressOptions(server="https://höst"), FILE, "in ASCII"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, environ: dict[str, str], said: str) -> None:
    with pytest.raises(RequestError, match=said) as refused:
        find_daemon(options, environ)
    assert refused.value.code == "usage"


def test_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(RequestError) as refused:
        find_daemon(AddressOptions(server="https://me:hush@h"), FILE)
    assert "hush" not in refused.value.message
