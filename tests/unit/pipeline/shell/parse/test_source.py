"""Which texts are bash, and that no text takes too long."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd_pipeline.shell import parse_script
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.reader import ParseResult
from assayd_pipeline.shell.parse.source import normalize_script, parse_source
from assayd_pipeline.worker import parse_shell

PIECES = st.sampled_from(
    ["rm", "echo ", "$(", ")", "`", "'", '"', "${x:-", "}", "((", "))", "[[ ", " ]]", "\\", "\n", ";", "|",
     "<<E\n", "\nE\n", "a=(", "case x in x) ", ";; esac", "if ", "; then ", "; fi", "#", "$'", "@(", "<(",
     "&", "é", "awk '"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rule", "place"),
    [
        ("if true; then\n", "shell.syntax", (1, 10)),
        ("echo ä $(\n", "shell.syntax", (1, 8)),
        ("}\n", "shell.syntax", (1, 1)),
        ("ls\ndone\n", "shell.syntax", (2, 1)),
        ("echo ok; fi", "shell.syntax", (1, 10)),
        ("cat <<E\nx", "shell.syntax", (1, 7)),
        ("ls\necho x\r", "source.control_character", (2, 7)),
        ("ls\n\0", "source.nul_byte", (2, None)),
        ("ls\n\ud800", "source.not_text", (2, None)),
        ("# nothing\n", "shell.empty", (None, None)),
        ("x" * (2**20 + 1), "source.too_large", (None, None)),
    ],
)
def test_text_that_is_not_bash_is_refused_at_its_place(
    text: str, rule: str, place: tuple[int | None, int | None]
) -> None:
    (finding,) = parse_script(text)
    assert (finding.rule, (finding.line, finding.column)) == (rule, place)
    assert finding.suggestion


@pytest.mark.parametrize("text", ["exec 3<>f", "x=1", ": \u00a0", "cat <<'E'\n\t$(\nE", "echo 'ä\tö'"])
def test_bash_is_bash(text: str) -> None:
    assert parse_script(text) == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "$(" * 20_000,
        "echo " + "$(" * 2_000 + ")" * 2_000,
        "(" * 20_000,
        "{ " * 20_000,
        "if " * 20_000,
        "${a:-" * 20_000,
        "`" * 20_001,
        "a && " * 1_000 + "b",
        '"$(' * 5_000,
        "[[ " + "( " * 5_000,
    ],
    ids=lambda text: text[:6],
)
def test_deep_nesting_is_refused_and_ends(text: str) -> None:
    (finding,) = parse_script(text)
    assert finding.rule in {"shell.too_deep", "shell.syntax"}


def test_a_mebibyte_of_one_word_is_read() -> None:
    assert parse_script("echo " + "a" * (2**20 - 5)) == ()


@pytest.fixture
def wide_tree() -> Iterator[None]:
    """Make the parser return a tree of 200,001 nodes for every text."""
    statements = ",".join(["{}"] * 200_001)
    reader.install_reader(lambda _: ParseResult(tree=f'{{"Type":"File","Stmts":[{statements}]}}'.encode()))
    yield
    reader.install_reader(parse_shell)


@pytest.mark.usefixtures("wide_tree")
def test_too_many_nodes_are_refused() -> None:
    (finding,) = parse_script("a text that no other test reads")
    assert finding.rule == "source.too_complex"


def test_binary_junk_is_refused() -> None:
    junk = random.Random(0).randbytes(100_000).decode("latin-1")
    (finding,) = parse_script(junk)
    assert finding.rule in {"source.nul_byte", "source.control_character"}


def test_places_are_lines_and_characters() -> None:
    source = parse_source("echo 'ä'\necho ö x\n")
    assert source.place(len("echo 'ä'\necho ö ".encode())) == (2, 8)


def test_cleaning_takes_the_mark_and_the_carriage_returns_away() -> None:
    assert normalize_script("\ufeffls\r\nx=1\r\n") == "ls\nx=1\n"
    assert parse_script(normalize_script("\ufeffls\r\n")) == ()


@pytest.mark.slow
@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert all(finding.suggestion for finding in parse_script(text))


@pytest.mark.parametrize("text", ["let x=( $2 + $4 )", "let x+=( 1 + 2 )"])
def test_arithmetic_of_let_in_brackets_cannot_be_decided(text: str) -> None:
    [finding] = parse_script(text)
    assert finding.rule == "shell.undecided"
    assert "x=$((a + b))" in (finding.suggestion or "")


def test_here_document_without_its_end_says_how_that_stands() -> None:
    [finding] = parse_script("if true; then\n  cat <<EOF\n  x\n  EOF\nfi\n")
    assert "at the start of the line" in (finding.suggestion or "")
