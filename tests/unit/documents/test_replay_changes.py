"""The differences between two submissions, in the form of `diff -u`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assayd.documents.execution import MAX_CHARS, MAX_COMPARED_LINES, build_submission_diff

LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=12)


def test_changed_line_is_told_with_its_place_and_what_is_around() -> None:
    before = {"code": "a\nb\nc\nd\ne\nf\n", "timeout_s": 1}
    after = {"code": "a\nb\nc\nd\nE\nf\n", "timeout_s": 2}

    assert build_submission_diff(before, after) == (
        "--- payload.code\n+++ payload.code\n@@ -2,5 +2,5 @@\n b\n c\n d\n-e\n+E\n f\n"
    )


def test_texts_deep_inside_are_told_by_their_places_and_equal_ones_are_not() -> None:
    before = {"steps": [{"content": "x"}, {"content": "y"}]}
    after = {"steps": [{"content": "x"}, {"content": "z"}], "files": {"data/a": "1"}}

    names = [line for line in build_submission_diff(before, after).splitlines() if line.startswith("---")]

    assert names == ["--- payload.files.data/a", "--- payload.steps.1.content"]
    assert build_submission_diff(before, before) == ""


@given(LINES, LINES)
def test_hunk_makes_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    told = build_submission_diff({"code": "\n".join(old)}, {"code": "\n".join(new)}).splitlines()[3:]
    kept = [line[1:] for line in told if line.startswith((" ", "-"))]
    come = [line[1:] for line in told if line.startswith((" ", "+"))]
    before, after = ("\n".join(text).splitlines() for text in (old, new))

    if not told:
        assert before == after
    else:
        places = range(len(before) + 1)
        assert any(before[:n] + come + before[n + len(kept) :] == after for n in places)


def test_many_changed_lines_are_told_without_comparing_them() -> None:
    before = {"code": "x\n" * (MAX_COMPARED_LINES + 1) + "end\n"}
    after = {"code": "y\n" * (MAX_COMPARED_LINES + 1) + "end\n"}

    lines = build_submission_diff(before, after).splitlines()

    assert [line for line in lines if line.startswith("-x")] == ["-x"] * (MAX_COMPARED_LINES + 1)
    assert lines[-1] == " end"


def test_long_difference_is_cut() -> None:
    told = build_submission_diff({"code": "a" * 2 * MAX_CHARS}, {"code": "b"})

    assert len(told) <= MAX_CHARS + 20
    assert told.endswith("… and more\n")
