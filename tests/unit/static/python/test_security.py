"""Evasions, each with the rule that detects it, next to ordinary code that must pass."""

from __future__ import annotations

import ast
import importlib
import tomllib
import types
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assayd.model.finding import Edit, Finding, Severity
from assayd.model.policy import ExecutionPolicy, ImportMode, ImportPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.static.python.security import RULES, scan_source
from assayd.static.python.source import PythonSource, parse_source

CASES = tomllib.loads(Path(__file__).with_name("security_cases.toml").read_text())
REFUSED: dict[str, list[str]] = CASES["refused"]
WARNED: list[str] = CASES["warned"]
OF_THE_CONTAINER: list[str] = CASES["of_the_container"]
ACCEPTED: list[str] = CASES["accepted"]


def scanned(code: str, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Return the findings on a text, even if it is a comparison of scopes and no program that compiles."""
    source = parse_source(code)
    if source.tree is None:
        source = PythonSource(text=code, tree=ast.parse(code))
    return scan_source(source, policy.imports)


def found(code: str, policy: ExecutionPolicy) -> set[str]:
    source = parse_source(code)
    assert source.tree is not None, source.findings
    return {finding.rule for finding in scan_source(source, policy.imports)}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_code_meets_its_rule(rule: str, policy: ExecutionPolicy) -> None:
    findings = {code: [f for f in scanned(code, policy) if f.rule == rule] for code in REFUSED[rule]}

    assert [code for code, of_rule in findings.items() if not of_rule] == []
    assert [
        (code, f)
        for code, of_rule in findings.items()
        for f in of_rule
        if not (f.is_error and f.line and f.column and f.snippet and f.suggestion)
    ] == []


def test_a_format_text_that_cannot_be_read_is_a_warning(policy: ExecutionPolicy) -> None:
    right = [("format.dynamic_template", Severity.WARNING)]
    findings = {code: [(f.rule, f.severity) for f in scanned(code, policy)] for code in WARNED}

    assert {code: found for code, found in findings.items() if found != right} == {}


def test_what_asks_for_the_folder_or_the_home_is_a_warning(policy: ExecutionPolicy) -> None:
    right = [("attribute.environment", Severity.WARNING, 2)]
    findings = {
        code: [(f.rule, f.severity, f.line) for f in scanned(code, policy)] for code in OF_THE_CONTAINER
    }

    assert {code: found for code, found in findings.items() if found != right} == {}


def test_ordinary_code_passes(policy: ExecutionPolicy) -> None:
    findings = {code: scanned(code, policy) for code in ACCEPTED}

    assert {code: found for code, found in findings.items() if found} == {}


def test_every_rule_of_the_table_is_declared() -> None:
    declared = {rule.id for rule in RULES}
    assert {*REFUSED, "attribute.environment", "format.dynamic_template", "node.not_allowed"} == declared


def test_all_violations_come_at_once_and_in_order(policy: ExecutionPolicy) -> None:
    code = "import os\nx = eval('1')\nimport sys\ny = x.__globals__; z = open('a')\n"
    findings = scan_source(parse_source(code), policy.imports)
    assert [(f.rule, f.line, f.column) for f in findings] == [
        ("import.not_allowed", 1, 1),
        ("builtin.not_allowed", 2, 5),
        ("import.not_allowed", 3, 1),
        ("attribute.dunder", 4, 7),
        ("builtin.not_allowed", 4, 24),
    ]


def test_columns_count_characters_and_snippets_are_cut(policy: ExecutionPolicy) -> None:
    code = "x = 'äöü€😀'; eval('1')  # " + "ü" * 500
    [finding] = scan_source(parse_source(code), policy.imports)
    assert finding.column == code.index("eval") + 1
    assert finding.snippet is not None
    assert len(finding.snippet) == 200


def test_an_attribute_in_a_chain_over_lines_is_placed_where_it_stands(policy: ExecutionPolicy) -> None:
    [finding] = scan_source(parse_source("x = (\n    y\n    .strip()\n    .__globals__\n)\n"), policy.imports)
    assert (finding.line, finding.column, finding.snippet) == (4, 6, "    .__globals__")


def test_suggestions_say_what_is_allowed(policy: ExecutionPolicy) -> None:
    by_code = {
        code: scan_source(parse_source(code), policy.imports)[0].suggestion or ""
        for code in ("import os", "import glob", "import sched", "import uuid\nuuid.uuid1()", "import urllib")
    }
    assert "os.path" in by_code["import os"]
    assert by_code["import glob"] == "Use fnmatch instead."
    assert "pathlib, posixpath, random, re" in by_code["import sched"]
    assert "uuid5" in by_code["import uuid\nuuid.uuid1()"]
    assert "urllib.parse" in by_code["import urllib"]


def test_what_may_be_imported_is_said_once(policy: ExecutionPolicy) -> None:
    first, second = scan_source(parse_source("import sched\nimport signal\n"), policy.imports)
    assert "pathlib" in (first.suggestion or "")
    assert second.suggestion == "Remove it; the finding on the import of line 1 lists the allowed modules."


def test_a_dict_of_fields_is_had_by_vars(policy: ExecutionPolicy) -> None:
    [finding] = scan_source(
        parse_source("def f(self):\n    return list(self.__dict__.values())\n"), policy.imports
    )
    assert finding.rule == "attribute.dunder"
    assert finding.edit == Edit(start_line=2, end_line=2, replacement="    return list(vars(self).values())")


@pytest.mark.parametrize("code", ["x().__dict__", "a.b.__dict__", "x.__dict__ = {}"])
def test_an_edit_to_vars_is_given_only_for_a_plain_name(code: str, policy: ExecutionPolicy) -> None:
    [finding] = scan_source(parse_source(code), policy.imports)
    assert (finding.rule, finding.edit) == ("attribute.dunder", None)


def test_a_refused_import_is_not_repeated_at_every_use(policy: ExecutionPolicy) -> None:
    assert found("import sys\nprint(sys.argv)\nf(sys)", policy) == {"import.not_allowed"}


def test_findings_are_capped(policy: ExecutionPolicy) -> None:
    assert len(scan_source(parse_source("eval\n" * 2000), policy.imports)) == 500


def test_syntax_of_an_unknown_kind_is_refused(policy: ExecutionPolicy) -> None:
    class Novelty(ast.expr):
        _fields = ()

    tree = ast.parse("x")
    tree.body.append(ast.Expr(value=Novelty(), lineno=1, col_offset=0))
    findings = scan_source(PythonSource(text="x", tree=tree), policy.imports)
    assert [f.rule for f in findings] == ["node.not_allowed"]


def test_a_deep_tree_is_walked_without_recursion(policy: ExecutionPolicy) -> None:
    tree = ast.parse("x")
    node: ast.expr = ast.Name(
        id="eval", ctx=ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=1
    )
    for _ in range(5_000):
        node = ast.UnaryOp(op=ast.Not(), operand=node, lineno=1, col_offset=0)
    tree.body.append(ast.Expr(value=node, lineno=1, col_offset=0))
    findings = scan_source(PythonSource(text="x", tree=tree), policy.imports)
    assert [f.rule for f in findings] == ["builtin.not_allowed"]


LATER = {("warnings", "deprecated")}
"""Listed names that a later Python has: code that imports one in a `try` runs."""


def test_every_listed_name_exists_and_is_no_other_module(policy: ExecutionPolicy) -> None:
    for module_name, names in policy.imports.names.items():
        module = importlib.import_module(module_name)
        for name in names:
            value = getattr(module, name, None if (module_name, name) in LATER else module)
            assert not isinstance(value, types.ModuleType), f"{module_name}.{name}"


def test_every_allowed_module_has_a_list_of_names(policy: ExecutionPolicy) -> None:
    assert policy.imports.names.keys() == policy.imports.allowed


def test_observed_imports_are_for_information() -> None:
    policy = ImportPolicy(mode=ImportMode.OBSERVE, allowed=frozenset({"re"}))
    [finding] = scan_source(parse_source("import os"), policy)
    assert finding.severity is Severity.INFO


def test_a_module_without_a_list_is_free_but_for_special_names() -> None:
    policy = ImportPolicy(allowed=frozenset({"os", "json"}), denied=frozenset({"os.system"}))
    assert (
        scan_source(
            parse_source("import os, json\nx = os\nos.stat('x')\njson.codecs\nfrom os import stat"), policy
        )
        == ()
    )
    assert [f.rule for f in scan_source(parse_source("import json\njson.__loader__"), policy)] == [
        "attribute.dunder"
    ]
    assert [f.rule for f in scan_source(parse_source("import os\nos.system('x')"), policy)] == [
        "attribute.not_allowed"
    ]
    assert [f.rule for f in scan_source(parse_source("from os import system"), policy)] == [
        "attribute.not_allowed"
    ]


_FRAGMENTS = st.sampled_from(
    [code for codes in (*REFUSED.values(), ACCEPTED, WARNED) for code in codes]
    + ["x", "(", ")", "\n", "    ", "def f():", "class A:", "import re", "re.", ".__class__", "'", "{0.", "é"]
)


@given(st.lists(_FRAGMENTS, max_size=6).map("\n".join) | st.text(max_size=80))
@example("import a.b.c.d\na.b.c.d.e")
def test_no_text_makes_the_scan_raise(code: str) -> None:
    policy = ImportPolicy(allowed=frozenset({"re", "a.b"}), names={"re": frozenset({"match"})})
    findings = scan_source(parse_source(code), policy)
    places = [(f.line or 0, f.column or 0) for f in findings]
    assert places == sorted(places)


@pytest.fixture
def narrow(tmp_path: Path) -> ExecutionPolicy:
    text = 'extends = "extractor"\n[imports]\nonly = ["json", "fnmatch"]\n'
    (tmp_path / "narrow.toml").write_text(text)
    return load_policies([get_shared_data_path("policies"), tmp_path]).get("narrow")


@pytest.mark.parametrize("code", ["import csv\n", "import os.path\n", "from re import match\n"])
def test_module_that_a_narrower_profile_leaves_out_is_refused(
    code: str, narrow: ExecutionPolicy, policy: ExecutionPolicy
) -> None:
    assert found(code, policy) == set()
    assert "import.not_allowed" in found(code, narrow)


def test_module_that_a_narrower_profile_keeps_is_judged_as_before(narrow: ExecutionPolicy) -> None:
    assert found("import json, fnmatch\njson.loads('1')\nfnmatch.fnmatch('a', 'a')\n", narrow) == set()
    assert found("import fnmatch\nfnmatch.os\n", narrow) == {"attribute.not_allowed"}
