"""What stays the same of a Python text when only its layout and comments change.

x = 1  # one        and        x   =   1        have one normal form
"""

from __future__ import annotations

import ast
import re


def normal_form(text: str) -> bytes:
    """Return the syntax tree without places; for a text that is none, its words."""
    try:
        tree = ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = " ".join(re.findall(r"\S+", text))
    return tree.encode("utf-8", "surrogatepass")
