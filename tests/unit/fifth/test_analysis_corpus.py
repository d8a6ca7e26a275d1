"""The corpus: valid programs pass, each fault is found at its place, and the offered edits work."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.model.finding import Edit
from support.texts import fifth_corpus as corpus

DOCUMENT = Path(__file__).parents[3] / "docs/kinds/fifth.md"
MOST_LINES = 150


def applied(code: str, edit: Edit) -> str:
    lines = code.split("\n")
    lines[edit.start_line - 1 : edit.end_line] = edit.replacement.split("\n")
    return "\n".join(lines)


@pytest.mark.parametrize("program", corpus.programs(), ids=lambda path: path.stem)
def test_valid_program_has_no_error_and_only_the_warnings_that_are_right(program: Path) -> None:
    findings = corpus.found(program.read_text())

    assert [f for f in findings if f.is_error] == []
    assert corpus.places(findings) == corpus.expected_warnings(program)


@pytest.mark.parametrize("case", corpus.cases(), ids=lambda case: case["name"])
def test_what_is_wrong_is_found_at_its_line_and_nothing_else(case: dict[str, object]) -> None:
    findings = corpus.found(case["code"], case.get("libraries", ()))

    assert [(f.rule, f.line) for f in findings] == [(case["rule"], case["line"])]
    assert findings[0].suggestion
    assert findings[0].snippet


def test_edits_that_are_offered_take_the_finding_away() -> None:
    tried = 0
    for case in corpus.cases():
        code, libraries = case["code"], case.get("libraries", ())
        for finding in corpus.found(code, libraries):
            if finding.edit is not None:
                tried += 1
                after = corpus.places(corpus.found(applied(code, finding.edit), libraries))
                assert (finding.rule, finding.line) not in after, case["name"]
    assert tried >= 15


def test_corpus_is_as_large_as_it_is_said_to_be() -> None:
    sizes = [len(program.read_text().splitlines()) for program in corpus.programs()]
    definitions = sum(program.read_text().count("\n: ") for program in corpus.programs())

    assert len(sizes) >= 25
    assert all(20 <= size <= MOST_LINES for size in sizes)
    assert definitions >= 400
    assert len(corpus.cases()) >= 60
    assert len({case["name"] for case in corpus.cases()}) == len(corpus.cases())


def test_the_document_has_the_figures_of_the_corpus() -> None:
    assert corpus.table() in DOCUMENT.read_text()
