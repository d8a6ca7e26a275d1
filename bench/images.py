"""What an attempt in the image `science` costs, beside the same attempt in `python`; on the OCI engine.

`deploy/dev/oci.sh run python -m bench.images` measures it alone, a quick run; `bench.run` has it among its figures where
the image is there.
"""  # noqa: E501 - a line is a form

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from assayd.engines.oci import OciEngine
from assayd.errors import EngineError
from assayd.ports.engine import ImageFacts
from assayd.sandbox.sandbox import read_baseline_bytes
from bench.daemon import Answer, Daemon, daemon, pool_filled
from bench.figures import flat, footprint
from bench.load import Submission, flood, one_by_one

Summary = Callable[[list[Answer]], dict[str, object]]

PREFIXES: Mapping[str, tuple[str, str]] = {"script_": ("python", "script"), "science_": ("science", "data")}
"""Image and profile by the prefix of figures."""
ENGINE: Mapping[str, str] = {"ENGINE__KIND": "oci"}
RATE_PER_S = 2.0
SOURCE = "print(sum(range(1000)))\n"
BURST = 8


def on_images(images: Path, folder: Path, count: int, summary: Summary) -> Iterator[tuple[str, object]]:
    """Measure both images; nothing where `science` is not built.

    Args:
        images: the store of the OCI engine.
        folder: for the state of daemons.
        count: attempts of each scenario.
        summary: makes a scenario of answers.
    """
    facts = asyncio.run(_facts(images))
    settings = {**ENGINE, "ENGINE__IMAGES_DIR": str(images)}
    if len(facts) != len(PREFIXES):
        return
    for prefix, (image, policy) in PREFIXES.items():
        yield f"{prefix}baseline_mb", read_baseline_bytes(facts[image]) // 2**20
        for name, value in _attempts(folder / image, script(policy), count, summary, settings):
            yield prefix + name, value
    for prefix, answers in _in_turns(folder, count, settings):
        yield f"{prefix}open_loop", summary(answers)


def script(policy: str) -> Submission:
    """Return a small script under a profile."""
    return {"kind": "script", "policy": policy, "payload": {"code": SOURCE}}


def _attempts(
    folder: Path, submission: Submission, count: int, summary: Summary, settings: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    with daemon(folder / "cold", POOL__ENABLED="false", **settings) as target:
        yield "cold", summary(asyncio.run(one_by_one(target, submission, count, pause_s=0.2)))
    with daemon(folder / "full", POOL__DEFAULT_TARGET=str(BURST), **settings) as target:
        answers: list[Answer] = []
        while len(answers) < count:
            _in_use(target, submission)
            answers += asyncio.run(one_by_one(target, submission, BURST))
        yield "full_pool", summary(answers)
        before = footprint(target.pid).cpu_s
        result = asyncio.run(flood(target, submission, concurrency=4, count=4 * count))
        spent = footprint(target.pid).cpu_s - before
        yield "cpu_ms_per_attempt", round(spent / len(result.answers) * 1000, 3)


def _in_turns(folder: Path, count: int, settings: Mapping[str, str]) -> Iterator[tuple[str, list[Answer]]]:
    """Send one image an attempt, then the other, at a steady rate: the two are compared with each other."""
    with ExitStack() as stack:
        targets = {}
        for prefix, (image, policy) in PREFIXES.items():
            target = stack.enter_context(daemon(folder / image / "warm", **settings))
            _in_use(target, script(policy))
            targets[prefix] = target, script(policy)
        found: dict[str, list[Answer]] = {prefix: [] for prefix in targets}
        for _ in range(count):
            for prefix, (target, submission) in targets.items():
                time.sleep(1 / RATE_PER_S)
                found[prefix] += asyncio.run(one_by_one(target, submission, 1))
        yield from found.items()


def _in_use(target: Daemon, submission: Submission) -> None:
    asyncio.run(one_by_one(target, submission, 1))
    asyncio.run(pool_filled(target))


async def _facts(images: Path) -> dict[str, ImageFacts]:
    engine = OciEngine(images=images, run=Path(os.environ.get("ASSAYD_ENGINE__RUN_DIR", "/run/assayd-oci")))
    found = {}
    try:
        for image, _ in PREFIXES.values():
            try:
                found[image] = await engine.image(f"assayd/{image}")
            except EngineError as problem:
                if problem.code != "image.missing":
                    raise
    finally:
        await engine.close()
    return found


def main() -> None:
    """Measure, and print."""
    from bench.run import IMAGES, summary

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=16, help="attempts of each scenario")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        results = dict(on_images(IMAGES, Path(folder), arguments.count, summary))
    if not results:
        parser.error(
            f"{IMAGES} has not both python and science: build them with `make images-oci` and "
            "`make images-oci IMAGES=science`, or name another store by ASSAYD_ENGINE__IMAGES_DIR"
        )
    print(json.dumps(flat(results, PREFIXES), indent=2))


if __name__ == "__main__":
    main()
