import pytest

from assayd.errors import RequestError
from assayd_mcp.http import TokenGuard, parse_loopback_address, read_token

TOKEN = "t" * 43


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("8765", ("127.0.0.1", 8765)),
        ("127.0.0.1:8765", ("127.0.0.1", 8765)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_loopback_address_is_taken(text, place) -> None:
    assert parse_loopback_address(text) == place


@pytest.mark.parametrize(
    "text", ["0.0.0.0:8765", "192.0.2.1:80", "localhost:80", "127.0.0.1:0", "x", "127.0.0.1"]
)
def test_address_that_others_could_reach_or_without_a_port_is_refused(text) -> None:
    with pytest.raises(RequestError, match="--http is"):
        parse_loopback_address(text)


def test_token_is_made_once_for_its_owner_alone(tmp_path) -> None:
    token = read_token(tmp_path / "token")

    assert read_token(tmp_path / "token") == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert len(token) == 43


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (TOKEN, 0o640, "other users can read or write it"),
        ("short", 0o600, "32 characters"),
        ("a b" * 20, 0o600, "no spaces"),
    ],
)
def test_token_that_others_may_know_is_refused(tmp_path, text, mode, said) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)

    with pytest.raises(RequestError, match=said):
        read_token(file)


def test_token_that_another_user_has_written_is_refused(tmp_path, monkeypatch) -> None:
    read_token(tmp_path / "token")
    owner = (tmp_path / "token").stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)

    with pytest.raises(RequestError, match="another user"):
        read_token(tmp_path / "token")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"authorization", f"Bearer {TOKEN}".encode())], 200),
        ([], 401),
        ([(b"authorization", b"Bearer wrong")], 401),
        ([(b"authorization", f"Bearer {TOKEN}".encode())] * 2, 401),
        ([(b"authorization", b"Bearer \xff\x00")], 401),
    ],
)
async def test_only_requests_with_the_token_pass(headers, status) -> None:
    sent = []

    async def inner(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message) -> None:
        sent.append(message)

    await TokenGuard(inner, TOKEN)({"type": "http", "headers": headers}, None, send)

    assert sent[0]["status"] == status
