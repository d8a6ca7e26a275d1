"""Rules for the whole source tree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import assayd
from assayd.imaging import RecipeFolders
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.texts import prose

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "daemon").rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
SCRIPTS = sorted(path for folder in ("bench", "examples") for path in (ROOT / folder).rglob("*.py"))
GUEST = [path for path in SOURCES if "guest" in path.relative_to(ROOT / "daemon").parts]

MAX_LINES = 600


def offenders(paths: list[Path], pattern: str) -> list[str]:
    """Return ``file:line`` of every line that matches the pattern."""
    compiled = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if compiled.search(line)
    ]


def absolute_imports(path: Path) -> set[str]:
    """Return the top-level names of a file's absolute imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_version_is_written_in_one_place_only() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["hatch"]["version"]["path"] == "daemon/assayd/__init__.py"
    written = offenders(SOURCES, re.escape(f'"{assayd.__version__}"'))
    assert [place.partition(":")[0] for place in written] == ["daemon/assayd/__init__.py"]


@pytest.mark.slow
def test_every_module_says_what_it_is() -> None:
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text())) for path in SOURCES}

    assert [path for path, docstring in docstrings.items() if not docstring] == []


def test_no_file_is_longer_than_the_limit() -> None:
    long = [path for path in (*SOURCES, *TESTS, *SCRIPTS) if len(path.read_text().splitlines()) > MAX_LINES]

    assert long == []


def test_no_check_is_silenced_without_its_code() -> None:
    pattern = r"# *(type: *ignore|noqa)(?!\[|: ?[A-Z]+[0-9])"

    assert offenders([*SOURCES, *TESTS, *SCRIPTS], pattern) == []


def test_no_unfinished_work_is_left_in_the_code() -> None:
    assert offenders(SOURCES, r"\b(TODO|FIXME|XXX)\b") == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    ours = [path for path in TESTS if "programs" not in path.parts]  # hostile programs skip their own tests
    assert offenders(ours, r"^[^\"']*pytest\.(mark\.)?(skip|xfail|importorskip)") == []


def test_guest_code_needs_the_standard_library_only() -> None:
    imported = set().union(*map(absolute_imports, GUEST))

    assert imported - sys.stdlib_module_names == set()


def test_shipped_policies_are_found_and_can_be_used() -> None:
    assert "default" in load_policies([get_shared_data_path("policies")]).names


def test_shipped_image_recipes_are_found_and_can_be_used() -> None:
    assert "python" in {recipe.name for recipe in RecipeFolders(get_shared_data_path("images")).load_all()}


def test_changelog_has_a_section_for_this_version() -> None:
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert {"Unreleased", assayd.__version__} & set(sections)


@pytest.mark.slow
@pytest.mark.parametrize("place", prose.PLACES)
def test_wording_that_the_style_sheet_rules_out_gets_rarer(place: str) -> None:
    among = prose.texts(place)
    risen = [
        f"{pattern.find}: {found}, accepted {pattern.accepted[place]}; write: {pattern.instead}"
        for pattern in prose.patterns()
        if (found := prose.count(pattern, among)) > pattern.accepted[place]
    ]

    assert risen == []


def test_banned_wording_is_counted_apart_in_literals_and_in_documentation() -> None:
    source = (
        '"""Of its own."""\n\nN = 1\n"""A text."""\n\n\ndef f(x):\n    """What is told."""\n'
        '    return f"what is {x} told anew"  # as it is,\n    # as it was\n'
    )

    assert prose.literals(source) == [(9, "what is "), (9, " told anew")]
    assert prose.documentation(source) == [
        (1, "Of its own."),
        (4, "A text."),
        (8, "What is told."),
        (9, " as it is,\n as it was"),
    ]


def test_exempt_texts_are_not_counted() -> None:
    pattern = prose.Pattern(find=r"\banew\b", instead="again", exempt=("`anew`",), accepted={})

    assert prose.count(pattern, [(Path("a.md"), 1, "the field `anew`, and anew")]) == 1
