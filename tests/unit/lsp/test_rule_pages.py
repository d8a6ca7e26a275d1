"""The pages that explain a rule in an editor."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from assayd_lsp.server import write_rule_pages as write


def rule(name: str, **more: object) -> dict[str, object]:
    return {
        "id": name,
        "title": "Import not allowed",
        "severity": "error",
        "help": "",
        "profile_key": None,
        **more,
    }


def read(address: str) -> str:
    return Path(unquote(urlsplit(address).path)).read_text()


def test_page_explains_its_rule(tmp_path: Path) -> None:
    rules = [rule("import.not_allowed", help="Bad: `import os`.", profile_key="imports.allowed")]
    addresses = write({"kind": "code", "rules": rules}, tmp_path)
    assert read(addresses["import.not_allowed"]).split("\n\n") == [
        "# Import not allowed",
        "`import.not_allowed`: error of the kind `code`",
        "Bad: `import os`.",
        "The profile's key `imports.allowed` states this rule.\n",
    ]


def test_page_of_a_rule_with_any_name_is_in_the_folder(tmp_path: Path) -> None:
    addresses = write({"kind": "../code", "rules": [rule("../../x"), rule("ü")]}, tmp_path)
    assert len({path for path in tmp_path.rglob("*") if path.is_file()}) == 2
    assert all(map(read, addresses.values()))
