"""Draws a gathering from public repositories, by rule, and tries it in two halves.

usage: python -m bench.real.halves draw MIRRORS IMAGES OUT.jsonl   (MIRRORS/OWNER+NAME/repo; root)
       python -m bench.real.halves listed MIRRORS IMAGES OUT.jsonl (the same items, by the list of sources)
       python -m bench.real.halves sources FILE.jsonl              (prints the list of sources)
       python -m bench.real.halves rules FILE.jsonl                (the static stages, under each profile)
       python -m bench.real.halves try FILE.jsonl SOCKET           (the same in containers of a daemon)

`candidates.py` finds the candidates, `natively.py` runs them. Of each repository and type, those with the
smallest SHA-256 are kept, up to a number. The last hexadecimal digit decides the half: a look at `seen` is
allowed, at `unseen` it isn't. The code itself isn't in this repository.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

from assayd.analysis.worker import run_stages
from assayd.kinds import registry
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies
from assayd_client import PlainClient
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.worker import parse_shell
from bench.real import candidates, natively
from bench.real.candidates import Candidate, Repository
from bench.real.python import wrapped_adapter

LICENSES = {
    "Apache-2.0": "Apache License", "MIT": "Permission is hereby granted, free of charge",
    "BSD": "Redistribution and use in source", "Unlicense": "unencumbered software",
    "CC0": "CC0 1.0 Universal",
}  # fmt: skip
"""Licenses that allow use, each with words that only its text has."""
KEPT = {"bash": 15, "sql": 15, "extractor": 5, "code": 40, "module": 12}
"""How many items of one type a repository contributes at most."""
PROFILES = {
    "bash": ("pipeline", "contained"), "sql": ("analysis", "contained"),
    "extractor": ("extractor", "contained"), "module": ("module_validation", "contained"), "code": ("code",),
}  # fmt: skip
_TRIED = 3
"""How many candidates are tried natively for each that is kept."""

_SINGLY = {
    candidates.bash: natively.bash, candidates.functions: natively.function,
    candidates.adapters: natively.adapter,
}  # fmt: skip
Item = dict[str, Any]
Judged = tuple[str, Sequence[Mapping[str, Any]]]


def license_of(folder: Path) -> str | None:
    """Return the license that a repository's file states, if it is one that allows use."""
    repository = Repository(folder, "")
    texts = [text for path, text in repository.texts(r"^(?i:licen[sc]e|copying|unlicense)[^/]*$", 60_000)]
    flat = " ".join(" ".join(texts).split())
    return next((name for name, words in LICENSES.items() if words in flat), None)


def draw(mirrors: Path, images: natively.Images, known: set[str]) -> Iterator[Item]:
    """Return what is kept of each repository; of those in earlier lists, which have no nodes, only nodes."""
    digests: set[str] = set()
    for place in sorted(mirrors.glob("*/repo")):
        name = place.parent.name.replace("+", "/", 1)
        folder = place / ".git" if (place / ".git").is_dir() else place
        if (license_ := license_of(folder)) is None:
            continue
        repository = Repository(folder, name)
        counts: Counter[str] = Counter()
        for candidate, more in _running(repository, images, only_nodes=name in known):
            digest = _digest(candidate)
            if digest in digests or counts[candidate.type] >= KEPT[candidate.type]:
                continue
            digests.add(digest)
            counts[candidate.type] += 1
            half = "seen" if int(digest[-1], 16) < 8 else "unseen"
            yield {
                "source": candidate.source, "license": license_, "type": candidate.type, "half": half,
                "digest": digest, "text": candidate.text, **more,
            }  # fmt: skip
        print(name, license_, dict(counts), file=sys.stderr)


def listed(mirrors: Path, images: natively.Images, sources: str) -> Iterator[Item]:
    """Return the items of a list of sources, with its halves; run natively again for what they print."""
    lines = [line.split(" ") for line in sources.splitlines() if not line.startswith("#")]
    due = {words[-1]: words for words in lines}
    for place in sorted(mirrors.glob("*/repo")):
        folder = place / ".git" if (place / ".git").is_dir() else place
        for candidate, more in _run_listed(
            Repository(folder, place.parent.name.replace("+", "/", 1)), images, due
        ):
            words = due.pop(_digest(candidate)[:16], None)
            if words:
                yield {
                    "source": candidate.source, "license": words[1], "type": candidate.type, "half": words[0],
                    "digest": _digest(candidate), "text": candidate.text, **more,
                }  # fmt: skip


def _run_listed(
    repository: Repository, images: natively.Images, due: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Candidate, Item]]:
    for find, run in _SINGLY.items():
        for candidate in find(repository):
            words = due.get(_digest(candidate)[:16])
            if words and words[2] == candidate.type and (more := run(candidate, images)) is not None:
                yield candidate, more
    if any(words[2] == "sql" and words[3].startswith(f"{repository.name}:") for words in due.values()):
        yield from natively.sql(_whole_folders(candidates.sql(repository)), images)


def _digest(candidate: Candidate) -> str:
    return hashlib.sha256(candidate.text.encode("utf-8", "replace")).hexdigest()


def _running(
    repository: Repository, images: natively.Images, *, only_nodes: bool
) -> Iterator[tuple[Candidate, Item]]:
    functions = candidates.functions(repository)
    if only_nodes:
        nodes = (one for one in functions if one.type == "code")
        yield from _singly(nodes, natively.function, images)
        return
    yield from _singly(candidates.bash(repository), natively.bash, images)
    yield from natively.sql(_whole_folders(candidates.sql(repository)), images)
    yield from _singly(functions, natively.function, images)
    yield from _singly(candidates.adapters(repository), natively.adapter, images)


def _singly(
    found: Iterator[Candidate],
    run: Callable[[Candidate, natively.Images], Item | None],
    images: natively.Images,
) -> Iterator[tuple[Candidate, Item]]:
    """Run the first candidates by digest until enough of each type run."""
    kept: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for candidate in sorted({_digest(one): one for one in found}.values(), key=_digest):
        most = KEPT[candidate.type]
        if kept[candidate.type] >= most or tried[candidate.type] >= most * _TRIED:
            continue
        tried[candidate.type] += 1
        if (more := run(candidate, images)) is not None:
            kept[candidate.type] += 1
            yield candidate, more


def _whole_folders(found: Iterator[Candidate]) -> Iterator[Candidate]:
    """Return whole folders and pages in the order of their digests, up to the number that is tried."""
    folders: dict[str, list[Candidate]] = {}
    for candidate in found:
        folders.setdefault(candidate.more["folder"], []).append(candidate)
    chosen = sorted(folders, key=lambda one: hashlib.sha256(one.encode()).hexdigest())
    in_order = [candidate for folder in chosen for candidate in folders[folder]]
    yield from in_order[: KEPT["sql"] * _TRIED]


def known_repositories(folder: Path) -> set[str]:
    """Return the repositories of the earlier gatherings' lists."""
    texts = [path.read_text() for path in folder.glob("sources_*.txt") if path.name != "sources_halves.txt"]
    return set(re.findall(r"^(?:\S+ \S+ )?([\w.-]+/[\w.-]+):", "".join(texts), re.MULTILINE))


def submission(item: Item, profile: str) -> Item:
    """Return the submission that judges an item."""
    text = item["text"]
    match item["type"]:
        case "extractor":
            kind, payload = "extractor", {"code": text, "sample_paths": item["paths"]}
        case "code":
            kind, payload = "code", {"code": text, "inputs": item["inputs"]}
        case "module":
            kind, payload = "module", wrapped_adapter(text)
        case type_:
            kind, payload = "pipeline", {"steps": [{"name": "s", "type": type_, "content": text}]}
            if type_ == "sql":
                empty = {"schema_sql": "CREATE TABLE before_it (a);"}
                payload["database"] = {"base64": item["before"]} if item["before"] else empty
    return {"kind": kind, "policy": profile, "payload": payload}


def attempt(item: Item, profile: str, *, path: Path) -> Judged:
    """Submit an item; return the verdict and the errors found."""
    with PlainClient(path) as client:
        answer = client.submit(submission(item, profile), wait_s=120)
    report = answer.get("report") or {}
    errors = [one for one in report.get("findings", []) if one["severity"] == "error"]
    if item["type"] == "bash" and answer["verdict"] == "validated":
        printed = "".join(case.get("stdout") or "" for case in report["runtime_results"]["cases"])
        if printed != item["printed"]:
            return "validated, prints something else", errors
    return answer["verdict"] or "no verdict", errors


@cache
def _policies() -> PolicySet:
    return load_policies([get_shared_data_path("policies")])


def judge(item: Item, profile: str) -> Judged:
    """Run the static stages of an item; return the verdict and the errors found."""
    asked = submission(item, profile)
    validator = registry.find_validator(asked["kind"])
    policy = _policies().get(profile)
    stages = run_stages(validator, validator.payload.model_validate(asked["payload"]), policy)
    errors = [one for stage in stages for one in stage.findings if one.is_error]
    found = [{"rule": one.rule, "profile_key": one.profile_key, "message": one.message} for one in errors]
    return "failed" if errors else "validated", found


def judge_halves(items: list[Item], judged: Callable[..., Judged]) -> None:
    """Print how much of each half is validated; of `seen`, also what is refused and why."""
    for type_, profiles in PROFILES.items():
        for profile in profiles:
            for half in ("seen", "unseen"):
                some = [one for one in items if (one["type"], one["half"]) == (type_, half)]
                with ThreadPoolExecutor(2) as pool:
                    tried = list(pool.map(partial(judged, profile=profile), some))
                _print_half(f"{type_} {profile} {half}", some, tried)


def _print_half(name: str, items: list[Item], tried: list[Judged]) -> None:
    failed = [
        (item, *one) for item, one in zip(items, tried, strict=True) if not one[0].startswith("validated")
    ]
    stated = sum(any(one["profile_key"] for one in errors) for _, _, errors in failed)
    other = sum(verdict.endswith("something else") for verdict, _ in tried)
    good = len(items) - len(failed)
    by_profile = f"{stated} of {len(failed)} by the profile"
    print(f"{name}: {good} of {len(items)}; {by_profile}; {other} print something else")
    if name.endswith(" seen"):
        for item, verdict, errors in failed:
            first = errors[0] if errors else {"rule": "-", "profile_key": None, "message": ""}
            print("  ", item["source"], verdict, first["rule"], first["profile_key"], first["message"][:160])


def main() -> None:
    """Draw, list the sources, or try."""
    match sys.argv[1:]:
        case ["draw", mirrors, images, out]:
            known = known_repositories(Path(__file__).parent)
            with Path(out).open("w") as stream:
                drawn = draw(Path(mirrors), natively.Images(Path(images)), known)
                stream.writelines(f"{json.dumps(item)}\n" for item in drawn)
        case ["listed", mirrors, images, out]:
            sources = (Path(__file__).parent / "sources_halves.txt").read_text()
            with Path(out).open("w") as stream:
                found = listed(Path(mirrors), natively.Images(Path(images)), sources)
                stream.writelines(f"{json.dumps(item)}\n" for item in found)
        case ["sources", file]:
            for item in map(json.loads, Path(file).read_text().splitlines()):
                print(item["half"], item["license"], item["type"], item["source"], item["digest"][:16])
        case ["rules", file]:
            reader.install_reader(parse_shell)
            judge_halves(list(map(json.loads, Path(file).read_text().splitlines())), judge)
        case ["try", file, path]:
            items = list(map(json.loads, Path(file).read_text().splitlines()))
            judge_halves(items, partial(attempt, path=Path(path)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
