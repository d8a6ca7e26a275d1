"""Counts of results by shape, and the changes between two sets."""

from __future__ import annotations

from assayd_client import trees
from assayd_client.trees import OTHERS, ResultTally, compare_tallies


def tally(*results: tuple[str, dict[str, object] | None]) -> ResultTally:
    counted = ResultTally()
    for path, result in results:
        counted.add(path, result, None if result is not None else "ValueError: no (line 2)")
    return counted


APPROVED = tally(("/d/2024/a.csv", {"year": 2024, "client": "A"}), ("/d/notes.txt", {}))


def test_paths_are_counted_by_shape_with_reasons_and_examples() -> None:
    counted = tally(("/d/2024/a.csv", {"year": 1}), ("/d/2023/b.csv", {}), ("/d/x.json", None)).document()

    assert (counted["paths"], counted["matched"], counted["empty"], counted["failed"]) == (3, 1, 1, 1)
    first, last = (
        next(one for one in counted["shapes"] if one["shape"] == s) for s in ("/a/9999/a.csv", "/a/a.json")
    )
    assert (first["paths"], first["matched"], first["unmatched"]) == (2, 1, ["/d/2023/b.csv"])
    assert last["reasons"] == {"ValueError: no (line 2)": 1}


def test_path_that_cannot_be_submitted_is_counted_and_no_example() -> None:
    counted = ResultTally()
    counted.add("/d/closed", None, "folder.unreadable: no", submitted=False)

    (shape,) = counted.document()["shapes"]
    assert (shape["failed"], shape["example"], shape["unmatched"]) == (1, "/d/closed", [])


def test_shapes_beyond_the_limit_are_counted_together(monkeypatch) -> None:
    monkeypatch.setattr(trees, "MOST_SHAPES", 2)

    counted = tally(*((f"/d{'/a' * depth}", {}) for depth in range(5)))

    assert counted.shapes[OTHERS].paths == 3
    assert len(counted.shapes) == 3


def test_new_shape_without_fields_is_drift() -> None:
    now = tally(
        ("/d/2024/a.csv", {"year": 1, "client": "A"}), ("/d/new/2024.json", {}), ("/d/v1/x.csv", None)
    )

    change = compare_tallies(APPROVED, now)

    assert change["drift"] == 0.6667
    assert {one["shape"] for one in change["lost_shapes"]} == {"/a/a/9999.json", "/a/a9/a.csv"}


def test_path_that_was_approved_without_fields_is_no_drift() -> None:
    change = compare_tallies(
        APPROVED, tally(("/d/2024/a.csv", {"year": 1, "client": "A"}), ("/d/other.txt", {}))
    )

    assert (change["drift"], change["lost_shapes"], change["new_shapes"]) == (0.0, [], [])


def test_field_that_became_empty_is_drift() -> None:
    now = tally(("/d/2024/a.csv", {"year": 1, "client": ""}), ("/d/2024/b.csv", {"year": 0, "client": "B"}))

    change = compare_tallies(APPROVED, now)

    assert change["emptied_fields"] == [{"field": "client", "before": 1.0, "now": 0.5}]
    assert change["drift"] == 0.5
