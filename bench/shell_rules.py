"""Measures which functions of the shell rules are needed by which cases.

usage: python -m bench.shell_rules [--real FILE.jsonl[.xz]] [--functions] [--json FILE]

Prints, for each corpus, how many scripts are refused. With --functions, each function of
`assayd_pipeline/shell` is replaced in turn by one that finds nothing; its line says in how many cases of each
corpus that changes the verdict, and in how many it changes any finding (rule, line, edit). No case needs a
function that changes nothing. --json writes every verdict, to be compared with those of another commit.

The corpora are the tests' evasions and legitimate scripts, and the bash steps of bench/hints, bench/repair
and bench/generate. The code of public repositories is not in this repository: --real names a file of it (see
bench/real).
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline import shell
from assayd_pipeline.shell.parse import reader, source
from assayd_pipeline.worker import parse_shell
from bench.real.shell import read_lines

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests/unit/pipeline/shell"
_POLICY = load_policies([get_shared_data_path("policies")]).get("pipeline")
# What a function returns that finds nothing, by the beginning of its annotation.
_NEUTRAL = {
    "None": "None",
    "bool": "False",
    "Iterator": "iter(())",
    "tuple[str, ...]": '("\\x00",)',
    "tuple": "()",
    "list": "[]",
    "Sequence": "[]",
    "str": '""',
    "int": "0",
}

Outcome = tuple[bool, tuple[tuple[str, int | None, bool], ...]]
"""Whether a script is refused, and of each finding the rule, the line and whether it has an edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCase:
    """One script of a corpus."""

    corpus: str
    name: str
    text: str


def cases(real: Path | None) -> Iterator[ScriptCase]:
    """Return the scripts of all corpora."""
    for family, lines in tomllib.loads((TESTS / "evasions.toml").read_text())["families"].items():
        for number, (_, text) in enumerate(lines):
            yield ScriptCase(corpus="evasions", name=f"{family} {number}", text=text)
    parts = re.split(r"^#### (.*)\n", (TESTS / "legitimate.txt").read_text(), flags=re.MULTILINE)[1:]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield ScriptCase(corpus="legitimate", name=name, text=text)
    for path in sorted((ROOT / "bench/repair/cases/bash").glob("*.sh")):
        yield ScriptCase(corpus="repair", name=path.name, text=path.read_text())
    hints = tomllib.loads((ROOT / "bench/hints/cases/pipeline.toml").read_text())["case"]
    intents = tomllib.loads((ROOT / "bench/generate/intents/pipeline.toml").read_text())
    found = [("hints", case["name"], case["payload"]["steps"]) for case in hints]
    found += [("generate", name, intent["right"]) for name, intent in intents["intent"].items()]
    found += [("generate", f"hostile {number}", steps) for number, steps in enumerate(intents["hostile"])]
    found += [
        ("real", item["name"], item["payload"]["steps"]) for item in (read_lines(real, {}) if real else ())
    ]
    for corpus, name, steps in found:
        for text in (step["content"] for step in steps if step["type"] == "bash"):
            yield ScriptCase(corpus=corpus, name=name, text=source.normalize_script(text))


def judge(text: str) -> Outcome:
    """Return what the rules say about a script; refused if they break."""
    try:
        found = shell.check_script(text, _POLICY.commands, network=_POLICY.network).findings
    except Exception as error:  # noqa: BLE001 - a function was replaced, and the others don't expect that
        return True, ((type(error).__name__, None, False),)
    return any(one.is_error for one in found), tuple(
        (one.rule, one.line, one.edit is not None) for one in found
    )


def functions() -> Iterator[tuple[str, FunctionType, CodeType]]:
    """Return the functions and methods of the shell rules, each with the code of one that finds nothing."""
    for module in pkgutil.walk_packages(shell.__path__, f"{shell.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            members = vars(value) if isinstance(value, type) else {name: value}
            for key, member in members.items():
                function = member.fget if isinstance(member, property) else member
                if not isinstance(function, FunctionType) or function.__module__ != module.name:
                    continue
                returned = str(function.__annotations__.get("return"))
                kind = "None" if returned.endswith("| None") else returned
                neutral = next((new for begin, new in _NEUTRAL.items() if kind.startswith(begin)), None)
                if neutral is not None and not key.startswith("__"):
                    place = f"{module.name.removeprefix(shell.__name__ + '.')} {function.__qualname__}"
                    yield place, function, eval(f"lambda *_, **__: {neutral}").__code__


def main() -> int:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--real", type=Path)
    arguments.add_argument("--functions", action="store_true")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    reader.install_reader(cache(parse_shell))
    scripts = list(cases(given.real))
    before = [judge(case.text) for case in scripts]
    refused = Counter(
        case.corpus for case, (is_refused, _) in zip(scripts, before, strict=True) if is_refused
    )
    for corpus, count in Counter(case.corpus for case in scripts).items():
        print(f"{corpus}: {refused[corpus]} of {count} refused")
    if given.json:
        rows = [(case.corpus, case.name, *seen) for case, seen in zip(scripts, before, strict=True)]
        given.json.write_text(json.dumps(rows))
    for place, function, neutral in functions() if given.functions else ():
        code, function.__code__ = function.__code__, neutral
        source.parse_source.cache_clear()
        after = [judge(case.text) for case in scripts]
        function.__code__ = code
        pairs = list(zip(scripts, before, after, strict=True))
        verdicts = Counter(case.corpus for case, old, new in pairs if old[0] != new[0])
        findings = Counter(case.corpus for case, old, new in pairs if old != new)
        print(
            place,
            ", ".join(f"{name} {verdicts[name]}/{count}" for name, count in findings.items()) or "nothing",
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
