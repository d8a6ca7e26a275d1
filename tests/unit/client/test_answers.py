import json
from pathlib import Path

import h11
import pytest

from assayd_client import ClientError, documents
from assayd_client.address import SocketChoice
from assayd_client.answers import LineReader, build_connection_error, create_decoder, get_start_command
from support.daemons.fake_service import GOLDEN


@pytest.mark.parametrize("name", ["validated", "failed_at_run", "refused", "broken"])
def test_recorded_attempt_is_read_with_types_and_written_as_it_was(name: str) -> None:
    text = (GOLDEN / f"{name}.json").read_bytes()
    attempt = create_decoder(lambda: documents.AttemptDocument)(text)
    assert attempt.model_dump(mode="json") == json.loads(text)


def test_field_that_a_newer_daemon_has_added_is_passed_over() -> None:
    attempt = json.loads((GOLDEN / "validated.json").read_text())
    newer = {**attempt, "new": 1, "peer": {**attempt["peer"], "host": "far"}}
    read = create_decoder(lambda: documents.AttemptDocument)(json.dumps(newer).encode())
    assert read.model_dump(mode="json") == attempt


@pytest.mark.parametrize("text", [b"{}", b"[]", b"<html>"])
def test_answer_that_is_none_of_the_contract_is_an_error_of_the_client(text: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        create_decoder(lambda: documents.AttemptDocument)(text)
    assert caught.value.code == "answer.unreadable"


def test_lines_are_read_whatever_the_chunks() -> None:
    stream = b'{"a": 1}\n{"a": 2}\n{"a"'
    for size in (1, 5, len(stream)):
        reader = LineReader(json.loads)
        read = [line for n in range(0, len(stream), size) for line in reader.feed(stream[n : n + size])]
        assert read == [{"a": 1}, {"a": 2}]


def test_answer_that_breaks_off_is_told_without_the_words_of_the_protocol(tmp_path) -> None:
    error = h11.RemoteProtocolError("peer closed connection without sending complete message body")
    socket = tmp_path / "s"
    socket.touch()
    said = build_connection_error(SocketChoice(path=socket, source="--socket"), error).message
    assert f"{socket} (--socket): it closed the connection before its answer was complete;" in said


def test_name_that_is_no_document_is_none() -> None:
    with pytest.raises(AttributeError, match="AttemptDocumant"):
        _ = documents.AttemptDocumant


def test_daemon_of_a_checkout_is_started_by_make(tmp_path: Path) -> None:
    package = tmp_path / "daemon" / "assayd_client"
    (tmp_path / "examples").mkdir()
    assert get_start_command(package) == "assayd"
    (tmp_path / "Makefile").touch()
    assert get_start_command(package) == "make serve"
