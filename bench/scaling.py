"""Processor time of the static stages at their cap against 64 KiB, for texts made to be slow to read.

    python -m bench.scaling [KIND …] [--cap BYTES]

Prints a row per shape: seconds at 64 KiB and at the cap, and how much more a byte costs there. A reader that
is linear shows 1; above 3, or above `analysis.cpu_s` at the cap, it is slower than it should be. Shapes that
are refused for another cap (syntax nodes, depth, statements) cost what finding that out costs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assayd.analysis.worker import run_stages
from assayd.kinds import registry
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.worker import parse_shell

SMALL = 64 * 2**10
MIB = 2**20


def repeated(line: str) -> Callable[[int], str]:
    """Return what fills a size with a line, `{}` in it being its number."""

    def fill(size: int) -> str:
        lines: list[str] = []
        left = size
        while left > 0:
            text = line.replace("{}", str(len(lines))) + "\n"
            left -= len(text)
            lines.append(text)
        return "".join(lines[:-1])

    return fill


def joined(head: str, piece: str, tail: str) -> Callable[[int], str]:
    """Return what fills a size with one long line: a head, pieces, a tail."""
    return lambda size: head + piece * ((size - len(head) - len(tail)) // len(piece)) + tail + "\n"


def two(first: str, second: str) -> Callable[[int], str]:
    """Return half a size of one line, then half a size of another."""
    return lambda size: repeated(first)(size // 2) + repeated(second)(size // 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """Texts of one shape, of any size up to a cap."""

    name: str
    text: Callable[[int], str]
    cap: int = MIB


PYTHON = (
    Shape("import re", repeated("import re")),
    Shape("aliases and attributes", two("import re as a{}", "a{}.compile")),
    Shape("one alias chain", two("a{} = re", "a1.compile")),
    Shape("f-string of many pieces", joined('x = f"', "{a}", '"')),
    Shape("f-string of many texts", joined("x = (", 'f"{a}" ', ")")),
    Shape("assignments", repeated("v{} = v")),
    Shape("reassigned name", repeated("v = v + 1")),
    Shape("functions", repeated("def f{}(): return f")),
    Shape("nested scopes", repeated("def f{}():\n    global a{}\n    a{} = 1")),
    Shape("names of one line", joined("x = [", "a,", "]")),
    Shape("attributes of one line", joined("x = [", "a.b,", "]")),
    Shape("attribute chain", joined("x = a", ".b", "")),
    Shape("binary operators", joined("x = 1", "+1", "")),
    Shape("open brackets", joined("x = ", "(", "")),
    Shape("backslashes", joined("x = 'a' ", "\\\n", "'b'")),
    Shape("comments", repeated("# a comment")),
    Shape("undefined names", repeated("nothing{}(other{})")),
    Shape("unclosed string", joined("x = '", "a", "")),
    Shape("invalid escapes", repeated("x{} = '\\d'")),
    Shape("fences", repeated("```python\na{} = 1\n```")),
    Shape("open fences", repeated("```a")),
    Shape("template", joined('"', "{0.a}", '".format(a)')),
    Shape("decorators", repeated("@property\ndef f{}(self): return 1")),
    Shape("bad lines", repeated("print 'a' {}")),
    Shape("tabs and spaces", repeated("if a:\n\tb\n        c")),
)
BASH = (
    Shape("echo", repeated("echo a")),
    Shape("assignments", repeated("v{}=1")),
    Shape("one variable", repeated("v=$v")),
    Shape("variables and uses", two("v{}=a", "echo $v1")),
    Shape("expansions of one word", joined("echo ", "$a", "")),
    Shape("substitutions", repeated("echo $(cat data/a)")),
    Shape("pipe", joined("cat data/a", " | cat", "")),
    Shape("arguments", joined("echo", " a", "")),
    Shape("functions", repeated("f{}() { echo a; }\nf{}")),
    Shape("quotes", joined("echo ", "'a'", "")),
    Shape("here document", joined("cat <<E\n", "a\n", "E")),
    Shape("awk", joined("awk '{ ", "x = 1; ", "}' data/a")),
    Shape("sed", joined("sed '", "s/a/b/;", "' data/a")),
    Shape("braces", joined("echo ", "{a,b}", "")),
    Shape("unreadable", repeated("if")),
)
SQL = (
    Shape("select", repeated("SELECT 1;"), 256 * 2**10),
    Shape("union", joined("SELECT 1", " UNION ALL SELECT 1", ";"), 256 * 2**10),
    Shape("values", joined("INSERT INTO t VALUES (1)", ",(1)", ";"), 256 * 2**10),
    Shape("columns", joined("SELECT a", ",a", ";"), 256 * 2**10),
    Shape("brackets", joined("SELECT ", "(", ";"), 256 * 2**10),
    Shape("and", joined("SELECT a FROM t WHERE a", " AND a", ";"), 256 * 2**10),
    Shape("create", repeated("CREATE TABLE IF NOT EXISTS t{} (a TEXT);"), 256 * 2**10),
    Shape("comments", repeated("-- a"), 256 * 2**10),
    Shape("open comments", joined("SELECT 1 ", "/*", ""), 256 * 2**10),
    Shape("unreadable", repeated("SELEC 1;"), 256 * 2**10),
    Shape("one string", joined("SELECT '", "a", "';"), 256 * 2**10),
    Shape("quotes", joined("SELECT '", "''", "';"), 256 * 2**10),
)
FIFTH = (
    Shape("definitions", repeated(": w{} ( -- n ) 1 ;")),
    Shape("words", joined(": w ( -- ) ", "dup drop ", ";")),
    Shape("unknown words", repeated("zzz{}")),
    Shape("one definition of loops", joined(": w ( -- ) ", "10 0 do loop ", ";")),
    Shape("open loops", joined(": w ( -- ) ", "10 0 do ", ";")),
    Shape("strings", repeated('s" a" type')),
    Shape("variables", repeated("variable v{}")),
    Shape("redefinitions", repeated(": w 1 ;")),
    Shape("one line of numbers", joined("", "1 ", "")),
)


def _extractor(text: str) -> Mapping[str, object]:
    return {"code": text, "sample_paths": ["/a/b.csv"]}


def _code(text: str) -> Mapping[str, object]:
    return {"code": text, "inputs": {}}


def _module(text: str) -> Mapping[str, object]:
    return {"manifest": {}, "files": {"adapter.py": text, "test_adapter.py": text}}


def _bash(text: str) -> Mapping[str, object]:
    return {"steps": [{"name": "a", "type": "bash", "content": text}]}


def _sql(text: str) -> Mapping[str, object]:
    return {"steps": [{"name": "a", "type": "sql", "content": text}]}


def _fifth(text: str) -> Mapping[str, object]:
    return {"code": text}


SUITES: Mapping[str, tuple[str, Callable[[str], Mapping[str, object]], tuple[Shape, ...]]] = {
    "extractor": ("extractor", _extractor, PYTHON),
    "code": ("code", _code, PYTHON),
    "module": ("module", _module, tuple(Shape(one.name, one.text, 100_000) for one in PYTHON)),
    "bash": ("pipeline", _bash, BASH),
    "sql": ("pipeline", _sql, SQL),
    "fifth": ("fifth", _fifth, FIFTH),
}


def measured_s(kind: str, payload: Mapping[str, object], policies: PolicySet) -> float:
    """Return the processor time of a submission's static stages, children's included."""
    validator = registry.find_validator(kind)
    read = validator.payload.model_validate(payload)
    began = time.process_time() + _children_s()
    run_stages(validator, read, policies.get(validator.default_policy))
    return time.process_time() + _children_s() - began


def _children_s() -> float:
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(arguments: Sequence[str]) -> None:
    """Print a row per shape of the suites named, all by default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], metavar="KIND", help="default: all")
    parser.add_argument("--cap", type=int, default=MIB, metavar="BYTES", help="the longest text")
    given = parser.parse_args(arguments)
    reader.install_reader(parse_shell)
    policies = load_policies([get_shared_data_path("policies")])
    print(f"{'suite':10} {'shape':26} {'64 KiB':>8} {'cap':>8} {'x/byte':>7}")
    for suite in given.suites or list(SUITES):
        kind, payload, shapes = SUITES[suite]
        measured_s(kind, payload("a"), policies)  # what is loaded once
        for shape in shapes:
            cap = min(shape.cap, given.cap)
            small = measured_s(kind, payload(shape.text(min(SMALL, cap))), policies)
            large = measured_s(kind, payload(shape.text(cap)), policies)
            ratio = large / cap / (small / min(SMALL, cap))
            mark = "  <-" if ratio > 3 or large > 5 else ""
            print(f"{suite:10} {shape.name:26} {small:8.3f} {large:8.3f} {ratio:7.1f}{mark}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
