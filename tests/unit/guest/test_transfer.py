"""Values that can be transferred, and forms that stand for none."""

from __future__ import annotations

import pytest

from assayd.guest.transfer import MessageDecoder, MessageEncoder, TransferError


def unknown(_: object) -> object:
    raise ValueError("no handles here")


def nothing(_: object) -> None:
    return None


@pytest.mark.parametrize(
    "form",
    [
        {}, ["r", 0], ["r", -1], ["r", True], ["x", 1], [], ["B", "eval"], ["B", "exec"], ["B", "__import__"],
        ["B", "open"], ["B", "getattr"], ["M", "os", "system"], ["M", "operator", "attrgetter"],
        ["M", "operator", "__doc__"], ["i", 5], ["f", "1"], ["p", "object", "x"], ["p", "decimal", "no"],
        ["t", [["r", 9]]], ["z", [["r", 0]]], ["h", 1, "object", []], ["m", 0], ["c", "1", 2], ["q", "1/0"],
    ],
)  # fmt: skip
def test_form_that_stands_for_nothing_is_refused(form: object) -> None:
    with pytest.raises(TransferError):
        MessageDecoder(unknown, {}).value(form)


@pytest.mark.parametrize(
    "nodes",
    [[["o", "str", []]], [["x", []]], [["d", [[["r", 0], 1]], None]], [["s", [["r", 0]]]], [5], [["dd", [], "eval"]]],
)  # fmt: skip
def test_node_that_stands_for_nothing_is_refused(nodes: list[object]) -> None:
    with pytest.raises(TransferError):
        MessageDecoder(unknown, {}).add(nodes)


@pytest.mark.parametrize("changes", [[[1, ["l", []]]], [[-1, ["l", []]]], [[0, ["d", [], None]]], [[0]], 5])
def test_change_of_what_was_not_sent_is_refused(changes: object) -> None:
    with pytest.raises(TransferError):
        MessageDecoder(unknown, {}, [[1]]).update(changes)


def test_value_without_a_form_is_refused_by_its_type() -> None:
    with pytest.raises(TransferError, match="a value of type object can't be transferred"):
        MessageEncoder(nothing, {}).form(object())


def test_deep_and_large_values_are_refused() -> None:
    deep: object = ()
    for _ in range(100):
        deep = (deep,)
    with pytest.raises(TransferError, match="nested too deeply"):
        MessageEncoder(nothing, {}).form(deep)
