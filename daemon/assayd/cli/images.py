"""`assay images`: build what containers are made of, and show what the engine has."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import assayd
from assayd.errors import EngineError, RequestError
from assayd.ports.engine import Engine, ImageFacts


def build_images(
    names: Sequence[str],
    cache: Path | None = None,
    library: Path | None = None,
    *,
    recipes: Path | None = None,
) -> None:
    """Build images, all of them when none is named, and load those that the engine has not got.

    `library` is a folder for the one image that is named. `recipes` are those that come with the program
    unless others are given.
    """
    from assayd.imaging import build, list_recipes
    from assayd.package_data import share

    if library is not None and len(names) != 1:
        raise RequestError("usage", "--library goes with the name of one image")
    recipes = recipes or share("images")
    guest = Path(assayd.__file__).parent / "guest"
    for name in names or [recipe.name for recipe in list_recipes(recipes)]:
        archive = build(
            name, recipes=recipes, guest=guest, cache=cache or _cache(), progress=_say, library=library
        )
        facts = asyncio.run(_load_if_new(name, archive))
        print(f"{facts.name}\t{facts.digest}\t{facts.size_bytes}")


def list_images() -> list[list[str]]:
    """Return a row per image: name, digest, size; an image that is missing says so."""
    from assayd.imaging import list_recipes
    from assayd.package_data import share

    return asyncio.run(_rows([recipe.name for recipe in list_recipes(share("images"))]))


async def _load_if_new(name: str, archive: Path) -> ImageFacts:
    from assayd.imaging import image_id

    engine = await _engine()
    try:
        present = await _find(engine, name)
        if present is not None and present.digest == image_id(archive):
            return present
        return await engine.load_image(archive)
    finally:
        await engine.close()


async def _rows(names: Sequence[str]) -> list[list[str]]:
    engine = await _engine()
    try:
        return [await _row(engine, name) for name in names]
    finally:
        await engine.close()


async def _row(engine: Engine, name: str) -> list[str]:
    facts = await _find(engine, name)
    if facts is None:
        return [name, "missing", f"build it: assay images build {name}"]
    return [name, facts.digest, f"{facts.size_bytes / 2**20:.0f} MiB"]


async def _find(engine: Engine, name: str) -> ImageFacts | None:
    try:
        return await engine.image(f"assayd/{name}")
    except EngineError as error:
        if error.code == "image.missing":
            return None
        raise


async def _engine() -> Engine:
    from assayd.settings import load_settings
    from assayd.wiring.engine import choose_engine

    return (await choose_engine(load_settings())).engine


def _cache() -> Path:
    if os.geteuid() == 0:
        return Path("/var/cache/assayd/images")
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "assayd" / "images"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
