from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.kinds.extractor.validator import EXPECTED
from assayd.model.finding import Severity
from assayd.static.python.signature import RULES, check_signature
from assayd.static.python.source import parse_source

ERRORS = [
    ("def main(path): return {}", "missing"),
    ("x = 1", "missing"),
    ("class A:\n    def extract(self, path): return {}", "missing"),
    ("def outer():\n    def extract(path): return {}", "missing"),
    ("extract: object", "missing"),
    ("def extract(path): return {}\ndel extract", "missing"),
    ("def Extract(path): return {}", "missing"),
    ("class extract:\n    pass", "not_a_function"),
    ("from a import extract", "not_a_function"),
    ("import extract", "not_a_function"),
    ("extract = None", "not_a_function"),
    ("def extract(path): return {}\nextract = 1", "not_a_function"),
    ("def extract(path): return {}\nclass extract: pass", "not_a_function"),
    ("async def extract(path): return {}", "async"),
    ("def extract(path): return {}\nasync def extract(path): return {}", "async"),
    ("def extract(path):\n    yield {}", "generator"),
    ("def extract(path):\n    yield from path\n    return {}", "generator"),
    ("def extract(path):\n    x = [(yield)]\n    return {}", "generator"),
    ("extract = lambda path: (yield)", "generator"),
    ("def extract(): return {}", "no_parameter"),
    ("def extract(*, path=''): return {}", "no_parameter"),
    ("def extract(**kw): return {}", "no_parameter"),
    ("extract = lambda: {}", "no_parameter"),
    ("def extract(path, base): return {}", "too_many_parameters"),
    ("def extract(a, /, b): return {}", "too_many_parameters"),
    ("def extract(path, base, *rest): return {}", "too_many_parameters"),
    ("extract = lambda path, base: {}", "too_many_parameters"),
    ("def extract(path, *, base): return {}", "keyword_only"),
    ("def extract(path, *, a=1, b): return {}", "keyword_only"),
    ("def extract(path): pass", "no_return"),
    ("def extract(path): return", "no_return"),
    ("def extract(path): return None", "no_return"),
    ("def extract(path): print(path)", "no_return"),
    ("def extract(path):\n    def inner(): return {}\n    inner()", "no_return"),
    ("def extract(path):\n    f = lambda: {}\n    class A:\n        def g(self): return 1", "no_return"),
    ("def run(path): pass\nextract = run", "no_return"),
]

WARNINGS = [
    ("def extract(path, found={}): return found", "mutable_default"),
    ("def extract(filename): return {}", "parameter_name"),
    ("extract = lambda p: {}", "parameter_name"),
    ("def extract(path: int): return {}", "parameter_annotation"),
    ("from pathlib import Path\ndef extract(path: Path): return {}", "parameter_annotation"),
    ("def extract(path: 'bytes'): return {}", "parameter_annotation"),
    ("def extract(path: list[str]): return {}", "parameter_annotation"),
    ("def extract(path) -> str: return {}", "return_annotation"),
    ("def extract(path) -> list[dict]: return {}", "return_annotation"),
    ("def extract(path) -> None: return {}", "return_annotation"),
    ("def extract(path) -> dict | None: return {}", "return_annotation"),
    ("def extract(path) -> Optional[dict]: return {}", "return_annotation"),
    ("def extract(path) -> 'dict | None': return {}", "return_annotation"),
    ("def extract(path) -> Union[Dict[str, str], List]: return {}", "return_annotation"),
    ("def extract(path) -> 'not a type': return {}", "return_annotation"),
    ("def extract(path) -> 1 + 1: return {}", "return_annotation"),
    ("T = list\ndef extract(path) -> T: return {}", "return_annotation"),
    ("extract = make()", "unchecked"),
    ("extract = a.b", "unchecked"),
    ("extract = unknown", "unchecked"),
    ("extract = {'a': 1}['a']", "unchecked"),
    ("a = b\nb = a\nextract = a", "unchecked"),
]

ACCEPTED = [
    "def extract(path: str) -> dict: return {}",
    "def extract(path): return {}",
    "def extract(path, /): return {}",
    "def extract(path, base='/'): return {}",
    "def extract(path='x'): return {}",
    "def extract(path, *args, **kw): return {}",
    "def extract(*args): return {}",
    "def extract(path, *, strict=True): return {}",
    "def extract(path: 'str') -> 'dict': return {}",
    "def extract(path: str | bytes) -> dict[str, object]: return {}",
    "def extract(path: Union[str, Path]) -> Dict[str, Any]: return {}",
    "def extract(path: Optional[str]) -> Mapping[str, Any]: return {}",
    "def extract(path: Annotated[str, 'x']) -> typing.Dict: return {}",
    "def extract(path: 'Union[str, int]') -> t.Dict[str, t.Any]: return {}",
    "Row = dict[str, str]\ndef extract(path: str) -> Row: return {}",
    "Row: TypeAlias = 'dict[str, str]'\ndef extract(path: str) -> Row: return {}",
    "class Row(TypedDict):\n    a: str\ndef extract(path: str) -> Row: return {}",
    "def extract(path) -> Any: return {}",
    "extract = lambda path: {}",
    "extract: Callable = lambda path: {}",
    "def run(path): return {}\nextract = run",
    "a = lambda path: {}\nb = a\nextract = b",
    "@cached\ndef extract(path): return {}",
    "if True:\n    def extract(path): return {}",
    "if x:\n    def extract(path): return {}\nelse:\n    def extract(path): return {'a': 1}",
    "try:\n    pass\nexcept E:\n    def extract(path): return {}",
    "with x:\n    def extract(path): return {}",
    "match x:\n    case 1:\n        def extract(path): return {}",
    "def extract(): pass\ndef extract(path): return {}",
    "extract = 1\ndef extract(path): return {}",
    "def extract(path):\n    if path:\n        return {}\n    raise ValueError",
    "def extract(path):\n    def inner():\n        yield 1\n    return dict(a=list(inner()))",
    "def extract(path):\n    return {x: y for x, y in g()}",
    "def extract(path):\n    for x in path:\n        try: pass\n        finally: return {}",
]


@pytest.mark.parametrize(("code", "rule"), ERRORS)
def test_what_cannot_be_called_is_an_error(code: str, rule: str) -> None:
    found = check_signature(parse_source(code), EXPECTED)
    [error] = [f for f in found if f.is_error]
    assert error.rule == f"signature.{rule}"
    wanted = "return {…}" if rule == "no_return" else "def extract(path: str) -> dict"
    assert wanted in (error.suggestion or "")


@pytest.mark.parametrize(("code", "rule"), WARNINGS)
def test_what_is_odd_is_a_warning(code: str, rule: str) -> None:
    [finding] = check_signature(parse_source(code), EXPECTED)
    assert (finding.rule, finding.severity) == (f"signature.{rule}", Severity.WARNING)
    assert finding.line


@pytest.mark.parametrize("code", ACCEPTED)
def test_what_can_be_called_passes(code: str) -> None:
    source = parse_source(code)
    assert source.tree is not None
    assert check_signature(source, EXPECTED) == ()


def test_every_declared_rule_has_a_case() -> None:
    used = {f"signature.{rule}" for _, rule in (*ERRORS, *WARNINGS)}
    assert used == {rule.id for rule in RULES}


def test_several_errors_come_at_once() -> None:
    found = check_signature(parse_source("async def extract(a, b, *, c): pass"), EXPECTED)
    assert [f.rule for f in found] == [
        "signature.async",
        "signature.too_many_parameters",
        "signature.keyword_only",
        "signature.parameter_name",
    ]


def test_an_alias_of_itself_comes_to_an_end() -> None:
    code = "A = Union[" + ", ".join(["A"] * 1000) + "]\ndef extract(path: A) -> A: return {}"
    assert len(check_signature(parse_source(code), EXPECTED)) <= 2


_PARTS = st.sampled_from([code for code, _ in (*ERRORS, *WARNINGS)] + ACCEPTED)


@given(st.lists(_PARTS, max_size=3).map("\n".join))
def test_no_code_makes_the_check_raise(code: str) -> None:
    declared = {rule.id for rule in RULES}
    assert {f.rule for f in check_signature(parse_source(code), EXPECTED)} <= declared


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("def extract_metadata(path: str) -> dict:\n    return {}", "def extract(path: str) -> dict:"),
        ("async def extract(path):\n    return {}", "def extract(path):"),
        ("def extract_a(path): return {}\ndef extract_b(path): return {}", None),
        ("def extract_a(path, base): return {}", None),
        ("def extract_a(path): return extract_a(path[1:])", None),
        ("def parse(path): return {}", None),
        ("async def extract(path):\n    return await f(path)", None),
        ("async def extract(path):\n    return [x async for x in path]", None),
    ],
)
def test_edit_makes_the_function_what_is_called_where_nothing_else_can_be_meant(
    text: str, mended: str | None
) -> None:
    [finding] = [found for found in check_signature(parse_source(text), EXPECTED) if found.is_error]
    assert (finding.edit and finding.edit.replacement) == mended


def test_annotation_that_leaves_none_beside_a_dict_is_worded_as_what_may_be() -> None:
    [optional] = check_signature(parse_source("def extract(path) -> Optional[dict]: return {}"), EXPECTED)
    [other] = check_signature(parse_source("def extract(path) -> str: return {}"), EXPECTED)
    assert optional.message == "By its annotation the result may be None; it must be a dict."
    assert other.message == "By its annotation the result is str; it must be a dict."


def test_method_of_a_class_is_called_by_a_function() -> None:
    [finding] = check_signature(parse_source("class P:\n    def extract(self, path): return {}\n"), EXPECTED)
    assert "return P().extract(path)" in (finding.suggestion or "")


def test_forgotten_return_names_what_was_made_last() -> None:
    code = "def extract(path):\n    info = {}\n    info['a'] = path\n"
    [finding] = [f for f in check_signature(parse_source(code), EXPECTED) if f.is_error]
    assert finding.suggestion == "Add at the end of extract(): return info"
