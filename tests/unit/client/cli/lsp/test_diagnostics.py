import json
from pathlib import Path

from lsprotocol import types

from assayd.findings.source_text import snippet
from assayd_client.cli.lsp.diagnostics import found_in, utf16
from assayd_client.cli.report import Origin
from support.daemons.fake_service import GOLDEN

FILE = Path("/p/x.py")
LINE = "    quarter = int(part)"


def attempt(**finding: object) -> dict:
    made = json.loads((GOLDEN / "failed_at_run.json").read_text())
    made["report"]["findings"][0].update(finding)
    made["report"]["fix_hints"][0].update({k: v for k, v in finding.items() if k in {"line", "message"}})
    return made


def origin(text: str) -> Origin:
    return Origin(paths={"x.py": str(FILE)}, texts={"x.py": text.encode()})


def test_finding_spans_its_line_from_the_first_letter() -> None:
    (found,) = found_in(attempt(line=2), origin(f"#\n{LINE}\n"), FILE)

    assert found.path == FILE
    assert found.diagnostic.range == types.Range(types.Position(1, 4), types.Position(1, len(LINE)))
    assert (found.diagnostic.code, found.diagnostic.severity) == ("runtime.exception", 1)


def test_column_counts_as_editors_do() -> None:
    text = 'x = "\N{GRINNING FACE}"; quarter'
    (found,) = found_in(attempt(line=1, column=9, snippet=text), origin(text), FILE)

    assert found.diagnostic.range.start == types.Position(0, 9)
    assert utf16(text) == len(text) + 1


def test_finding_with_a_column_spans_the_name_there() -> None:
    text = "x = os.path + 1"
    (found,) = found_in(attempt(line=1, column=5, snippet=text), origin(text), FILE)
    assert found.diagnostic.range == types.Range(types.Position(0, 4), types.Position(0, 11))


def test_finding_at_the_end_of_a_line_spans_its_last_letter() -> None:
    text = "def f()\r\n    return 1"
    (found,) = found_in(attempt(line=1, column=8, snippet="def f()"), origin(text), FILE)
    assert found.diagnostic.range == types.Range(types.Position(0, 6), types.Position(0, 7))


def test_finding_on_a_long_line_has_its_range() -> None:
    text = "x = '" + "y" * 300 + "' + name"
    (found,) = found_in(attempt(line=1, column=310, snippet=snippet(text, 1)), origin(text), FILE)
    assert found.diagnostic.range == types.Range(types.Position(0, 309), types.Position(0, len(text)))


def test_certain_edit_moves_with_the_code_within_an_answer() -> None:
    made = attempt(line=1)
    made["report"]["fix_hints"][0]["edit"] = {"start_line": 1, "end_line": 0, "replacement": "import re"}

    (found,) = found_in(made, origin(f"Sure:\n```python\n{LINE}\n```\n"), FILE)

    assert [(edit.range.start.line, edit.range.end.line, edit.new_text) for edit in found.edits] == [
        (2, 2, "import re\n")
    ]


def test_finding_without_a_line_stands_on_the_first() -> None:
    (found,) = found_in(attempt(line=None, snippet=None), origin(LINE), FILE)
    assert found.diagnostic.range.start == types.Position(0, 0)
    assert found.edits == ()


def test_internal_error_says_nothing_of_the_code() -> None:
    made = json.loads((GOLDEN / "broken.json").read_text())
    found = found_in(made, origin(LINE), FILE)[-1]
    assert found.diagnostic.severity == types.DiagnosticSeverity.Warning
