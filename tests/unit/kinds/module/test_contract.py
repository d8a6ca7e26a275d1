"""A registered class and its methods, as far as the adapter's text shows them."""

from __future__ import annotations

import textwrap

import pytest

from assayd.kinds.module.contract import check_contract
from assayd.kinds.module.generating import ADAPTER
from assayd.model.finding import Edit, Finding
from assayd.model.policy import AdapterContract
from assayd.static.python.scopes import build_scoped_tree
from assayd.static.python.source import parse_source

METHODS = """\
    async def fetch_raw(self): ...
    def transform(self, raw): ...
    def get_schema(self): ...
"""


def check(text: str, contract: AdapterContract | None = None) -> list[Finding]:
    text = textwrap.dedent(text)
    tree = parse_source(text).tree
    assert tree is not None, text
    return list(check_contract("adapter.py", text, build_scoped_tree(tree), contract or AdapterContract()))


@pytest.mark.parametrize(
    "head",
    [
        "from assayd_adapter import register_adapter\n@register_adapter\n",
        "from assayd_adapter import register_adapter\n@register_adapter('weather', name='x')\n",
        "import assayd_adapter\n@assayd_adapter.register_adapter\n",
        "import a.b.c\n@a.b.c.register_adapter(1)\n",
        "from assayd_adapter import register_adapter as reg\n@reg\n",
        "from assayd_adapter import register_adapter\n@other\n@register_adapter()\n",
    ],
)
def test_decorator_counts_bare_called_dotted_and_renamed(head: str) -> None:
    assert check(f"{head}class Weather:\n{METHODS}") == []


def test_contract_is_what_the_profile_says() -> None:
    contract = AdapterContract(decorators=("adapter",), methods=("run",))
    assert check("@adapter\nclass A:\n    def run(self): ...\n", contract) == []
    assert [f.rule for f in check(ADAPTER, contract)] == ["contract.no_decorator"]


def test_class_that_nothing_registers_gets_an_edit_where_the_decorator_is_imported() -> None:
    [finding] = check(f"from assayd_adapter import register_adapter\n\nclass Weather:\n{METHODS}")
    assert (finding.rule, finding.line, finding.category) == ("contract.no_decorator", 3, "missing_method")
    assert finding.edit == Edit(start_line=3, end_line=2, replacement="@register_adapter\n")
    [without] = check(f"class Weather:\n{METHODS}")
    assert without.edit is None
    assert "from assayd_adapter import register_adapter" in (without.suggestion or "")


@pytest.mark.parametrize("text", ["x = 1\n", "class Empty:\n    pass\n"])
def test_adapter_without_any_such_class_is_told_what_to_write(text: str) -> None:
    [finding] = check(text)
    assert (finding.rule, finding.edit) == ("contract.no_decorator", None)


def test_each_missing_method_is_told_and_a_near_miss_named() -> None:
    found = check(
        "@register_adapter\nclass W:\n    def transfrom(self, raw): ...\n    def get_schema(self): ...\n"
    )
    assert [f.rule for f in found] == ["contract.missing_method"] * 2
    assert {f.category for f in found} == {"missing_method"}
    assert "fetch_raw" in found[0].message
    assert "Rename transfrom to transform" in (found[1].suggestion or "")


def test_inherited_methods_do_not_count() -> None:
    text = f"class Base:\n{METHODS}\n@register_adapter\nclass W(Base):\n    def transform(self, raw): ...\n"
    assert [f.rule for f in check(text)] == ["contract.missing_method"] * 2


def test_method_without_self_is_told_and_a_static_one_is_not() -> None:
    text = METHODS.replace("transform(self, raw)", "transform()")
    [finding] = check(f"@register_adapter\nclass W:\n{text}")
    assert (finding.rule, finding.line) == ("contract.method_form", 4)
    static = METHODS.replace("    def transform(self", "    @staticmethod\n    def transform(self")
    assert check(f"@register_adapter\nclass W:\n{static}") == []


def test_property_without_self_is_told_and_other_functions_of_the_class_are_not() -> None:
    text = f"@register_adapter\nclass W:\n{METHODS}\n    @property\n    def unit(): return 1\n"
    [finding] = check(text)
    assert (finding.rule, finding.suggestion) == ("contract.method_form", "Write: def unit(self):")
    for decorator in ("@property\n    def unit(self)", "def unit()"):
        assert check(f"@register_adapter\nclass W:\n{METHODS}\n    {decorator}: return 1\n") == []


@pytest.mark.parametrize(
    "text",
    [
        f"@register_adapter\nclass W:\n{METHODS}\n@register_adapter\ndef f(): ...\n",
        f"@register_adapter\nclass W:\n{METHODS}\nclass A:\n    @register_adapter\n    class B: ...\n",
    ],
)
def test_only_classes_at_the_top_can_be_registered(text: str) -> None:
    assert [f.rule for f in check(text)] == ["contract.not_a_class"]
