"""Abbreviated ids, and `last`, in every command that takes an id."""

from __future__ import annotations

import pytest

from assayd_client import PlainClient

CODE = {"kind": "extractor", "payload": {"code": "x"}}


@pytest.fixture
def two(socket: str, service) -> list[str]:
    with PlainClient(socket) as client:
        return [client.submit(CODE, wait_s=5)["id"] for _ in range(2)]


@pytest.mark.parametrize("form", [lambda _: "last", str, str.lower])
def test_newest_attempt_is_shown_by(assay, two: list[str], form, capsys) -> None:
    assert assay("show", form(two[-1])) == 0
    assert capsys.readouterr().out.startswith(two[-1])


@pytest.mark.parametrize(
    "words", [["show"], ["logs"], ["events"], ["replay"], ["artifacts"], ["repair", "start"]]
)
def test_verbs_take_the_beginning_of_an_id(assay, service, socket, words: list[str], capsys) -> None:
    with PlainClient(socket) as client:
        made = client.submit(CODE, wait_s=5, attempt_id="01JTC8ZK5VABCDEFGHJKMNPQRS")["id"]
    assay(*words, made[:12])
    assert "doesn't exist" not in capsys.readouterr().err


def test_beginning_of_several_ids_is_refused_with_them(assay, two: list[str], capsys) -> None:
    assert assay("show", two[0][:20]) == 2
    said = capsys.readouterr().err
    assert all(each in said for each in two)


def test_beginning_of_no_id_is_refused(assay, two: list[str], capsys) -> None:
    assert assay("show", "01ZZZZ") == 2
    assert capsys.readouterr().err == "assay: attempt 01ZZZZ doesn't exist\n"


def test_last_of_none_is_refused(assay, service, capsys) -> None:
    assert assay("show", "last") == 2
    assert capsys.readouterr().err == "assay: no attempt exists yet\n"


def test_cancel_takes_the_last(assay, service, socket) -> None:
    service.outcome = None
    with PlainClient(socket) as client:
        waiting = client.submit(CODE)["id"]
    assert assay("cancel", "last") == 0
    assert service.attempts[waiting].verdict == "cancelled"
