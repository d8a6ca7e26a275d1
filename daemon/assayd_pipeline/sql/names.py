"""Suggests the intended name for a name that SQLite doesn't know.

no such column: amuont              Did you mean amount?
no such function: median            belongs to the sqlite3 shell
no such table: generate_series      belongs to the sqlite3 shell
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from assayd.did_you_mean import find_close_names
from assayd.model.text_limits import shorten_text
from assayd_pipeline.sql.rules import SHELL_FUNCTIONS

_MISSING = re.compile(r"no such (column|table|function): (?:[^\s.]+\.)*([^\s.]+)|has no column named (\S+)")
_SHOWN = 20


def advise_on_names(message: str, names: Mapping[str, Sequence[str]]) -> str | None:
    """Return advice about an unknown name, or None.

    Args:
        message: SQLite's error message.
        names: the columns of each existing table.
    """
    found = _MISSING.search(message)
    if found is None:
        return None
    kind, name = found[1] or "column", (found[2] or found[3]).strip('"`[]')
    if name.lower() in SHELL_FUNCTIONS:
        return f"{name} exists only in the sqlite3 shell. Write instead: {SHELL_FUNCTIONS[name.lower()]}."
    if kind == "function" or not names:
        return None
    known = (
        list(names) if kind == "table" else list(dict.fromkeys(c for each in names.values() for c in each))
    )
    folded = {each.lower(): each for each in known}
    near = find_close_names(name.lower(), folded)
    meant = f"Did you mean {folded[near[0]]}? " if near else ""
    if kind == "table":
        return shorten_text(f"{meant}The tables are: {', '.join(known[:_SHOWN])}.")
    tables = "; ".join(f"{table} ({', '.join(columns)})" for table, columns in names.items())
    return shorten_text(f"{meant}The columns are: {tables}.")
