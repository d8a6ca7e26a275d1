"""`assay images adopt`: what is written beside the operator's recipes, and what engines are asked."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assayd.errors import AssaydError, ConfigError, EngineError, RequestError
from assayd.ports.engine import Engine


class EngineMachine:
    """The engine of the settings, as adopting needs it; another engine's images come from DOCKER_HOST."""

    def save(self, image: str, archive: Path) -> None:
        """Write an image of a local engine as `docker save` does. Raises: ConfigError, EngineError."""
        asyncio.run(_save(image, archive))

    def printed_by(self, archive: Path) -> bytes:
        """Return what the program of an image prints. Raises: EngineError."""
        return asyncio.run(_printed_by(archive))


async def _save(image: str, archive: Path) -> None:
    from assayd.engines.docker import DockerEngine
    from assayd.settings import load_settings

    engine = DockerEngine(base_url=load_settings().engine.url)
    try:
        await engine.save_image(image, archive)
    except EngineError as problem:
        message = (
            f"there is no file {image}, and no engine that gives an image of that name ({problem.message}); "
            "name an OCI layout, or an archive that `docker save` wrote"
        )
        raise ConfigError("image.source_missing", message) from problem
    finally:
        await engine.close()


async def _printed_by(archive: Path) -> bytes:
    from assayd.sandbox.printed import printed_by

    engine = await plain_engine()
    try:
        return await printed_by(engine, archive)
    finally:
        await engine.close()


async def plain_engine() -> Engine:
    """Return the engine of the settings, without templates."""
    from assayd.settings import load_settings
    from assayd.wiring.engine import choose_engine

    settings = load_settings()
    started = settings.engine.model_copy(update={"templates": "off"})
    return (await choose_engine(settings.model_copy(update={"engine": started}))).engine


@contextmanager
def noted(name: str, where: str, tag: str | None, cache: Path) -> Iterator[None]:
    """Write the recipe of an adopted image, unless it is there, and its lock; a failure undoes that.

    Raises: RequestError, ConfigError.
    """
    from assayd.imaging.adopting import source_digest
    from assayd.imaging.own_recipe import lock_path, own_path

    own, place = _place_of(name), str(Path(where).resolve()) if Path(where).exists() else where
    recipe, lock = own_path(own, name), lock_path(own, name)
    _require_same(recipe, place, tag)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".adopting-", dir=cache) as work:
        digest = source_digest(place, tag, Path(work), EngineMachine())
    before = {path: path.read_bytes() if path.is_file() else None for path in (recipe, lock)}
    own.mkdir(parents=True, exist_ok=True)
    if before[recipe] is None:
        recipe.write_text(_recipe_text(place, tag))
    lock.write_text(f"# The image that was adopted; written by `assay images adopt {name}`.\n{digest}\n")
    try:
        yield
    except AssaydError:
        for path, content in before.items():
            path.unlink() if content is None else path.write_bytes(content)
        raise


def _place_of(name: str) -> Path:
    """Return the folder of the operator's recipes. Raises: RequestError."""
    from assayd.imaging.recipe import is_name
    from assayd.package_data import share
    from assayd.settings import load_settings

    if not is_name(name) or (share("images") / name).is_dir():
        message = (
            f"{name!r} cannot be the name of an adopted image: a-z, 0-9, _ and -, and none that is shipped"
        )
        raise RequestError("usage", message)
    return load_settings().images.recipes_dir


def _require_same(recipe: Path, where: str, tag: str | None) -> None:
    from assayd.imaging.own_recipe import read_own

    if not recipe.is_file():
        return
    table, extends = read_own(recipe.parent, recipe.stem)
    if extends is not None or (table.text("from"), table.text("tag")) != (where, tag):
        message = f"{recipe} exists with other content; remove it, or adopt under another name"
        raise RequestError("usage", message)


def _recipe_text(where: str, tag: str | None) -> str:
    from json import dumps

    tagged = f"tag = {dumps(tag)}\n" if tag is not None else ""
    return f"from = {dumps(where)}\n{tagged}"
