"""Runs a notebook's cells as one program; the cells share state, but their output and errors are separate.

The driver below is submitted as the program. It reads the cells from one file and writes each cell's result
to another file. The driver is untrusted too: code in a cell can forge the results, but has no other effect.
"""

from __future__ import annotations

import json
from typing import Any

INPUT = ".cells.json"
OUTPUT = ".answers.json"
MOST_CELLS = 500
_FIELDS = {"stdout": str, "stderr": str, "display": list, "error": list}

DRIVER = """
import ast, contextlib, io, json, signal, sys, traceback

with open(".cells.json", encoding="utf-8") as file:
    asked = json.load(file)
space = {"__name__": "__main__", "__builtins__": __builtins__}
answers = []


def over(number, frame):
    raise TimeoutError(f"the cell ran longer than {asked['timeout_s']} seconds")


def run(source, display):
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        if value is not None:
            display.append({"text/plain": repr(value)})


signal.signal(signal.SIGALRM, over)
for source in asked["cells"]:
    out, err, display, error = io.StringIO(), io.StringIO(), [], []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"])
        try:
            run(source, display)
        except BaseException as problem:
            lines = traceback.format_exception(problem)
            error.append({"ename": type(problem).__name__, "evalue": str(problem), "traceback": lines})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    answers.append(
        {"stdout": out.getvalue(), "stderr": err.getvalue(), "display": display, "error": error}
    )
with open(".answers.json", "w", encoding="utf-8") as file:
    json.dump(answers, file)
"""


def encode_cells(cells: list[str], timeout_s: float) -> str:
    """Return the input file of the driver; a time limit of 0 means that cells have no time limit."""
    return json.dumps({"cells": cells, "timeout_s": timeout_s})


def parse_results(answers: bytes | None) -> list[dict[str, Any]] | None:
    """Return the result of each cell; None if the program wrote no valid results."""
    try:
        found = json.loads(answers) if answers is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(_is_cell_answer(each) for each in found):
        return None
    return found


def _is_cell_answer(each: object) -> bool:
    return (
        isinstance(each, dict)
        and each.keys() == _FIELDS.keys()
        and all(isinstance(each[name], kind) for name, kind in _FIELDS.items())
    )
