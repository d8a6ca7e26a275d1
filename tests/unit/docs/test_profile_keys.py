"""The reference of profile files lists every key, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from assayd.policies.files import HttpTable, ProfileTable

PAGE = Path(__file__).resolve().parents[3] / "docs/operating/profile-keys.md"


def _documented() -> dict[str, set[str]]:
    """Return the keys of each section of the page; those before the first section are under ''."""
    found: dict[str, set[str]] = {"": set()}
    section = ""
    for line in PAGE.read_text().splitlines():
        if heading := re.fullmatch(r"## `\[(\w+)\]`", line):
            section = heading[1]
            found[section] = set()
        elif row := re.match(r"\| `([^`]+)` \|", line):
            found[section].add(row[1])
    return found


def test_every_key_of_a_profile_is_documented_and_no_other() -> None:
    tables = {
        name: field.annotation
        for name, field in ProfileTable.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    expected = {name: set(table.model_fields) for name, table in tables.items()}
    expected[""] = set(ProfileTable.model_fields) - set(tables)
    expected["network"].discard("http")
    expected["network"] |= {f'http."HOST".{key}' for key in HttpTable.model_fields} | {'http."HOST"'}

    assert _documented() == expected
