import json
from pathlib import Path

from lsprotocol import types

from assayd.findings.source_text import get_snippet
from assayd_client.cli.report import SubmissionOrigin
from assayd_lsp.diagnostics import (
    LocatedDiagnostic,
    build_diagnostics,
    build_warning,
    count_utf16_units,
    filter_unchanged_diagnostics,
)
from support.daemons.fake_service import GOLDEN

FILE = Path("/p/x.py")
PAGE = "file:///rules/exception.md"
LINE = "    quarter = int(part)"


def attempt(**finding: object) -> dict:
    made = json.loads((GOLDEN / "failed_at_run.json").read_text())
    made["report"]["findings"][0].update(finding)
    made["report"]["fix_hints"][0].update({k: v for k, v in finding.items() if k in {"line", "message"}})
    return made


def origin(text: str) -> SubmissionOrigin:
    return SubmissionOrigin(paths={"x.py": str(FILE)}, texts={"x.py": text.encode()})


def diagnosed(made: dict, origin: SubmissionOrigin) -> list[LocatedDiagnostic]:
    return build_diagnostics(made["report"], origin, FILE, {"runtime.exception": PAGE})


def test_finding_spans_its_line_from_the_first_letter() -> None:
    (found,) = diagnosed(attempt(line=2), origin(f"#\n{LINE}\n"))

    assert found.path == FILE
    assert found.diagnostic.range == types.Range(types.Position(1, 4), types.Position(1, len(LINE)))
    assert (found.diagnostic.code, found.diagnostic.severity) == ("runtime.exception", 1)


def test_column_counts_as_editors_do() -> None:
    text = 'x = "\N{GRINNING FACE}"; quarter'
    (found,) = diagnosed(attempt(line=1, column=9, snippet=text), origin(text))

    assert found.diagnostic.range.start == types.Position(0, 9)
    assert count_utf16_units(text) == len(text) + 1


def test_finding_with_a_column_spans_the_name_there() -> None:
    text = "x = os.path + 1"
    (found,) = diagnosed(attempt(line=1, column=5, snippet=text), origin(text))
    assert found.diagnostic.range == types.Range(types.Position(0, 4), types.Position(0, 11))


def test_finding_at_the_end_of_a_line_spans_its_last_letter() -> None:
    text = "def f()\r\n    return 1"
    (found,) = diagnosed(attempt(line=1, column=8, snippet="def f()"), origin(text))
    assert found.diagnostic.range == types.Range(types.Position(0, 6), types.Position(0, 7))


def test_finding_on_a_long_line_has_its_range() -> None:
    text = "x = '" + "y" * 300 + "' + name"
    (found,) = diagnosed(attempt(line=1, column=310, snippet=get_snippet(text, 1)), origin(text))
    assert found.diagnostic.range == types.Range(types.Position(0, 309), types.Position(0, len(text)))


def test_certain_edit_moves_with_the_code_within_an_answer() -> None:
    made = attempt(line=1)
    made["report"]["fix_hints"][0]["edit"] = {"start_line": 1, "end_line": 0, "replacement": "import re"}

    (found,) = diagnosed(made, origin(f"Sure:\n```python\n{LINE}\n```\n"))

    assert [(edit.range.start.line, edit.range.end.line, edit.new_text) for edit in found.edits] == [
        (2, 2, "import re\n")
    ]


def test_finding_without_a_line_stands_on_the_first() -> None:
    (found,) = diagnosed(attempt(line=None, snippet=None), origin(LINE))
    assert found.diagnostic.range.start == types.Position(0, 0)
    assert found.edits == ()


def test_trouble_is_a_warning_on_the_first_line() -> None:
    diagnostic = build_warning(FILE, "engine.down: no\x1b engine").diagnostic
    assert diagnostic.severity == types.DiagnosticSeverity.Warning
    assert (diagnostic.range.start, diagnostic.message) == (
        types.Position(0, 0),
        "engine.down: no\\x1b engine",
    )


def test_rule_has_the_address_of_its_page() -> None:
    (found,) = diagnosed(attempt(line=1), origin(LINE))
    (other,) = diagnosed(attempt(line=1, rule="other"), origin(LINE))
    assert found.diagnostic.code_description == types.CodeDescription(PAGE)
    assert other.diagnostic.code_description is None


def test_finding_of_a_run_moves_with_its_line_while_it_is_typed_above() -> None:
    made = attempt(line=2)
    made["report"]["fix_hints"][0]["edit"] = {"start_line": 2, "end_line": 2, "replacement": "pass"}
    found = diagnosed(made, origin(f"#\n{LINE}\n"))

    (kept,) = filter_unchanged_diagnostics(found, origin(f"# one\n# two\n{LINE}\n"))

    assert kept.diagnostic.range == types.Range(types.Position(2, 4), types.Position(2, len(LINE)))
    assert [edit.range.start.line for edit in kept.edits] == [2]
    assert found[0].diagnostic.range.start.line == 1


def test_finding_is_gone_once_its_line_is_changed_or_if_no_run_found_it() -> None:
    of_run, static = (
        diagnosed(attempt(line=2, layer=layer), origin(f"#\n{LINE}\n")) for layer in ("runtime", "static")
    )
    assert filter_unchanged_diagnostics(of_run, origin(f"#\n{LINE} + 1\n")) == []
    assert filter_unchanged_diagnostics(static, origin(f"#\n{LINE}\n")) == []
