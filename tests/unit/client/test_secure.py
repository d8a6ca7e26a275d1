import os
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client import ServerChoice
from assayd_client.address import build_authorization_header, get_tls_context, read_token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("assay_abc\n")
    return path


def server(file: Path, ca_file: Path | None = None) -> ServerChoice:
    return ServerChoice(host="h", port=1, source="--server", token_file=file, ca_file=ca_file)


def test_token_is_read_anew_for_each_request(file: Path) -> None:
    assert build_authorization_header(server(file)) == "Bearer assay_abc"
    file.write_text("assay_new")
    assert build_authorization_header(server(file)) == "Bearer assay_new"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_token_that_others_may_use_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(RequestError, match="chmod 600"):
        read_token(file)


def test_token_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(RequestError, match="belongs to another user"):
        read_token(file)


@pytest.mark.parametrize("content", ["", "two words", "a\nb", "a\x00b", "t\xf6ken"])
def test_file_without_a_token_is_refused_and_not_shown(file: Path, content: str) -> None:
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(RequestError, match=r"it (must hold one word|holds no token)") as refused:
        read_token(file)
    assert "two" not in refused.value.message


def test_missing_file_folder_and_pipe_are_refused_at_once(file: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        read_token(file.with_name("none"))
    pipe = file.with_name("pipe")
    os.mkfifo(pipe, 0o600)
    with pytest.raises(RequestError, match="isn't a regular file"):
        read_token(pipe)


def test_file_without_certificates_is_refused(file: Path) -> None:
    with pytest.raises(RequestError, match="it holds no certificates"):
        get_tls_context(server(file, file))
    with pytest.raises(RequestError, match="No such file"):
        get_tls_context(server(file, file.with_name("none")))
