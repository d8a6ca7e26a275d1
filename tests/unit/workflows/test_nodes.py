"""Parts of results, and a repair's description of the other nodes."""

from __future__ import annotations

import json

import pytest

from assayd.model.submission import RepairOptions
from assayd_workflows.course import (
    MissingResultPart,
    ResultPartsTooLarge,
    SizeBudget,
    build_submission,
    extract_texts,
    resolve_reference,
)
from assayd_workflows.model import ResultReference, WorkflowNode, WorkflowPlan

RESULT = {"rows": [{"a": 1}], "pair": {"$py": "tuple", "value": [1, 2]}, "seen": {"$py": "set", "value": [1]}}


def part(*path: str) -> object:
    return resolve_reference(RESULT, ResultReference(node="n", path=path))


def test_parts_are_found_in_objects_lists_and_tuples() -> None:
    assert part() == RESULT
    assert part("rows", "0", "a") == 1
    assert part("pair", "1") == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("none",), "n.result has no 'none'; it has the keys rows, pair, seen"),
        (("rows", "1"), "n.result.rows has no '1'; it has 1 elements"),
        (("rows", "-1"), "n.result.rows has no '-1'; it has 1 elements"),
        (("rows", "٠"), "n.result.rows has no '٠'; it has 1 elements"),
        (("rows", "0", "a", "b"), "n.result.rows.0.a has no 'b'; it has no parts"),
        (("rows", "9" * 30), "n.result.rows has no"),
    ],
)
def test_missing_part_is_named_with_what_is_there(path: tuple[str, ...], message: str) -> None:
    with pytest.raises(MissingResultPart) as missing:
        part(*path)

    assert str(missing.value).startswith(message)


def test_words_for_a_repair_are_bounded_and_name_both_sides() -> None:
    node = WorkflowNode(id="b", code="x: str", sources={"x": ResultReference(node="a")})
    after = WorkflowNode(id="c", sources={"y": ResultReference(node="b")}, declared={"y": "int"})
    plan = WorkflowPlan(
        nodes=(WorkflowNode(id="a", declared={"result": "str"}), node, after),
        outputs={"o": ResultReference(node="b")},
    )
    inputs = {"x": b'"' + b"long" * 10_000 + b'"'}

    asked = json.loads(
        build_submission(node, plan, inputs, workflow_id="w", repair=RepairOptions(provider="p"))
    )

    assert asked["payload"] == {"code": "x: str", "inputs": {"x": "long" * 10_000}}
    assert asked["repair"] == {"provider": "p", "max_attempts": None}
    words = str(asked["intent"])
    assert len(words) < 2000
    assert "Its input 'x' is a.result (that result is declared as str)" in words
    assert "b.result is the input 'y' of node 'c', declared as int." in words
    assert "b.result is the output 'o' of the workflow." in words


def test_parts_of_one_result_are_bounded_together_and_written_once() -> None:
    result = {"text": "x" * 98}
    sources = {f"x{number}": ResultReference(node="a", path=("text",)) for number in range(100)}

    texts = extract_texts(result, sources, SizeBudget("the inputs", 10_000))

    assert len({id(text) for text in texts.values()}) == 1
    with pytest.raises(
        ResultPartsTooLarge, match="the inputs have more than 9999 bytes; refer to parts of the results"
    ):
        extract_texts(result, sources, SizeBudget("the inputs", 9999))


def test_nothing_is_written_beyond_the_room() -> None:
    class Counted(dict[str, object]):
        reads = 0

        def __getitem__(self, name: str) -> object:
            Counted.reads += 1
            return super().__getitem__(name)

    result = Counted({f"p{number}": "x" * 1000 for number in range(100)})

    with pytest.raises(ResultPartsTooLarge):
        extract_texts(
            result,
            {name: ResultReference(node="a", path=(name,)) for name in result},
            SizeBudget("they", 2500),
        )

    assert Counted.reads == 3
