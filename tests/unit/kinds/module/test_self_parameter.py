"""Methods whose first parameter isn't the one that Python passes."""

from __future__ import annotations

import ast

import pytest

from assayd.kinds.module.contract import check_methods

BODY = "\n        return self.a\n"


@pytest.mark.parametrize(
    ("method", "line", "corrected"),
    [
        (f"    def share():{BODY}", 2, "    def share(self):"),
        (f"    @property\n    def share():{BODY}", 3, "    def share(self):"),
        (f"    @staticmethod\n    def share(self):{BODY}", 2, ""),
    ],
)
def test_first_parameter_is_corrected(method: str, line: int, corrected: str) -> None:
    text = f"class A:\n{method}"
    [finding] = check_methods("a.py", text, ast.parse(text))

    assert (finding.rule, finding.line) == ("contract.method_form", line)
    assert finding.edit is not None
    assert finding.edit.replacement == corrected


@pytest.mark.parametrize(
    "method",
    [
        f"    @property\n    def share(self):{BODY}",
        "    @staticmethod\n    def share(a):\n        return a\n",
        "    @fixture\n    def share():\n        return 1\n",
    ],
)
def test_method_that_gets_what_it_declares_is_fine(method: str) -> None:
    text = f"class A:\n{method}"

    assert list(check_methods("a.py", text, ast.parse(text))) == []


def test_decorator_of_several_lines_gets_no_edit() -> None:
    text = f"class A:\n    @(\n    staticmethod)\n    def share(self):{BODY}"
    [finding] = check_methods("a.py", text, ast.parse(text))

    assert finding.edit is None
