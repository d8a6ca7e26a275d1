"""The page of modules lists every field of a manifest, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType
from typing import get_args

from pydantic import BaseModel

from assayd.kinds.module.contract import Manifest

PAGE = Path(__file__).resolve().parents[3] / "docs/kinds/module.md"


def _fields(model: type[BaseModel]) -> dict[str, bool]:
    """Return the fields, nested ones as `table.field`, and whether each is required."""
    found: dict[str, bool] = {}
    for name, field in model.model_fields.items():
        nested = [one for one in get_args(field.annotation) if one is not NoneType]
        if len(nested) == 1 and isinstance(nested[0], type) and issubclass(nested[0], BaseModel):
            found |= {f"{name}.{inner}": required for inner, required in _fields(nested[0]).items()}
        else:
            found[name] = field.is_required()
    return found


def test_every_field_of_a_manifest_is_documented_and_no_other() -> None:
    section = PAGE.read_text().partition("## The manifest\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) ?\|", section, re.MULTILINE)

    assert {name: word.startswith("required") for name, word in rows} == _fields(Manifest)
