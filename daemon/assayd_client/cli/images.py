"""Implements `assay images`, which builds the images of containers and shows the images of the engine."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import assayd
from assayd.errors import AssaydError, ConfigError, EngineError, RequestError
from assayd.ports.engine import Engine, ImageFacts, ListedImage
from assayd.sandbox.sandbox import PREFIX
from assayd_client.cli.terminal import format_age

if TYPE_CHECKING:
    from assayd.imaging import Recipe, RecipeFolders


class ConfiguredEngine:
    """The configured engine for adopting images.

    Images of other engines are read through DOCKER_HOST.
    """

    def save(self, image: str, archive: Path) -> None:
        """Write an image of a local engine in the format that `docker save` uses.

        Raises: ConfigError, if the engine has no such image.
        """
        asyncio.run(_save_image(image, archive))

    def run_and_read_output(self, archive: Path) -> bytes:
        """Return the output of an image's program. Raises: EngineError, if the program can't be run."""
        return asyncio.run(_run_and_capture_output(archive))


async def _save_image(image: str, archive: Path) -> None:
    from assayd.engines.docker import DockerEngine
    from assayd.settings import load_settings

    engine = DockerEngine(base_url=load_settings().engine.url)
    try:
        await engine.save_image(image, archive)
    except EngineError as problem:
        message = (
            f"{image} is neither a file nor an image in a local engine ({problem.message}); "
            "pass an OCI layout or a `docker save` archive"
        )
        raise ConfigError("image.source_missing", message) from problem
    finally:
        await engine.close()


async def _run_and_capture_output(archive: Path) -> bytes:
    from assayd.sandbox.baseline import run_and_read_output

    engine = await open_engine_without_templates()
    try:
        return await run_and_read_output(engine, archive)
    finally:
        await engine.close()


async def open_engine_without_templates() -> Engine:
    """Return the configured engine, which creates containers without templates."""
    from assayd.settings import load_settings
    from assayd.wiring.engine import choose_engine

    settings = load_settings()
    started = settings.engine.model_copy(update={"templates": "off"})
    return (await choose_engine(settings.model_copy(update={"engine": started}))).engine


@contextmanager
def write_adoption_recipe(name: str, where: str, tag: str | None, cache: Path) -> Iterator[str]:
    """Write the recipe of an adopted image, unless the recipe exists, and the lock file.

    The digest of the image is yielded. On failure, the changes are undone.

    Raises: RequestError, if the name or an existing recipe conflicts; ConfigError, for an unusable image.
    """
    from assayd.imaging.adopting import compute_source_digest
    from assayd.imaging.recipe import get_lock_path, get_recipe_path

    own, place = (
        _get_operator_recipe_folder(name),
        str(Path(where).resolve()) if Path(where).exists() else where,
    )
    recipe, lock = get_recipe_path(own, name), get_lock_path(own, name)
    _require_same_recipe(recipe, place, tag)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".adopting-", dir=cache) as work:
        digest = compute_source_digest(place, tag, Path(work), ConfiguredEngine())
    before = {path: path.read_bytes() if path.is_file() else None for path in (recipe, lock)}
    own.mkdir(parents=True, exist_ok=True)
    if before[recipe] is None:
        recipe.write_text(_render_recipe(place, tag))
    lock.write_text(f"# The image that was adopted; written by `assay images adopt {name}`.\n{digest}\n")
    try:
        yield digest
    except AssaydError:
        for path, content in before.items():
            path.unlink() if content is None else path.write_bytes(content)
        raise


def _get_operator_recipe_folder(name: str) -> Path:
    """Return the folder that contains the operator's recipes.

    Raises: RequestError ``usage``, if the name is invalid or belongs to a shipped image.
    """
    from assayd.imaging.recipe import is_image_name
    from assayd.package_data import get_shared_data_path
    from assayd.settings import load_settings

    if not is_image_name(name) or (get_shared_data_path("images") / name).is_dir():
        message = (
            f"{name!r} isn't a valid name for an adopted image: use a-z, 0-9, _ and -, but not a shipped "
            "image's name"
        )
        raise RequestError("usage", message)
    return load_settings().images.recipes_dir


def _require_same_recipe(recipe: Path, where: str, tag: str | None) -> None:
    from assayd.imaging.recipe import read_recipe_table

    if not recipe.is_file():
        return
    table, extends = read_recipe_table(recipe.parent, recipe.stem)
    if extends is not None or (table.text("from"), table.text("tag")) != (where, tag):
        message = f"{recipe} exists with different content; remove it, or adopt the image under another name"
        raise RequestError("usage", message)


def _render_recipe(where: str, tag: str | None) -> str:
    from json import dumps

    tagged = f"tag = {dumps(tag)}\n" if tag is not None else ""
    return f"from = {dumps(where)}\n{tagged}"


def build_images(
    names: Sequence[str],
    cache: Path | None = None,
    library: Path | None = None,
    *,
    recipes: Path | None = None,
    repair: bool = False,
) -> None:
    """Build images, and load those images that the engine lacks.

    If no names are given, all images are built except those that are built on demand. `library` is a folder
    for the only named image. By default, `recipes` contains the shipped recipes. If `repair` is True, only
    images that are missing, damaged or of another version are built.

    Raises: RequestError ``usage``, if `library` is set without exactly one name.
    """
    if library is not None and len(names) != 1:
        raise RequestError("usage", "--library needs the name of exactly one image")
    found = load_recipes(recipes)
    folder = cache or _get_cache_folder()
    wanted = names or [recipe.name for recipe in found.load_all() if not recipe.on_demand]
    if repair:
        on_demand = () if names else [recipe.name for recipe in found.load_all() if recipe.on_demand]
        wanted = asyncio.run(_find_unusable_images(wanted, on_demand))
    for name in wanted:
        facts = _build_and_load(found.load(name), found, folder, library)
        print(f"{facts.name}\t{facts.digest}\t{facts.size_bytes}")


def adopt_image(name: str, where: str, tag: str | None = None, cache: Path | None = None) -> None:
    """Prepare a foreign image for runs under a name, and write the image's recipe and lock file.

    An existing recipe is kept with its additions, but its lock file is rewritten.
    """
    folder = cache or _get_cache_folder()
    with write_adoption_recipe(name, where, tag, folder) as digest:
        build_images([name], folder)
    _record_adoption(name, digest, where)


def _record_adoption(name: str, digest: str, where: str) -> None:
    """Record an adoption in the daemon's audit log.

    A failure causes only a warning, because the image is already usable.
    """
    from assayd.audit import FOLDER, append_audit_line
    from assayd.settings import load_settings

    folder = load_settings().state_dir / FOLDER
    actor: dict[str, object] = {"uid": os.getuid(), "pid": os.getpid()}
    try:
        added = append_audit_line(
            folder, "image.adopted", actor=actor, subject=name, digest=digest, source=where
        )
        reason = "" if added else "no daemon writes one there"
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
    if reason:
        _print_progress(f"the adoption isn't in the audit log {folder}: {reason}")


def lock_recipe(name: str) -> None:
    """Let pip select the wheels for an operator's recipe, and write the recipe's lock file.

    Raises: RequestError ``usage``, if the recipe lists no Python packages.
    """
    from assayd.imaging.wheels import lock_wheels

    recipe = load_recipes().load(name)
    if recipe.lock is None or recipe.python is None:
        message = f"recipe {name} lists no python_packages, so there is nothing to lock"
        raise RequestError("usage", message)
    count = lock_wheels(recipe.python_packages, recipe.python, recipe.lock.path)
    print(f"{recipe.lock.path}: {count} wheels; build the image: assay images build {name}")


def list_images() -> list[list[str]]:
    """Return a row for each image, with name, digest, size, shared size, age and users.

    Missing images are marked. Images without a recipe are at the end of the list.
    """
    there = {one.name.removeprefix(PREFIX): one for one in asyncio.run(_list_images())}
    recipes = {recipe.name: recipe for recipe in load_recipes().load_all()}
    stray = [name for name in there if name not in recipes]
    return [
        [*_build_image_row(name, there.get(name), recipes.get(name)), *_build_users_cell(name)]
        for name in (*recipes, *stray)
    ]


def build_sbom(name: str) -> bytes:
    """Return the CycloneDX document of an image. Raises: EngineError, if the engine lacks the image."""
    from assayd.imaging.sbom import MAX_BYTES, SBOM_FILE

    return asyncio.run(_read_image_file(f"assayd/{name}", SBOM_FILE, MAX_BYTES))


async def _read_image_file(image: str, path: str, most_bytes: int) -> bytes:
    engine = await _open_engine()
    try:
        return await engine.image_file(image, path, most_bytes)
    finally:
        await engine.close()


def remove_unused_images(*, dry_run: bool) -> list[list[str]]:
    """Remove images that no kind or profile uses, and return name, size and action for each image.

    If `dry_run` is set, no image is removed.
    """
    unused = [one for one in asyncio.run(_list_images()) if not _find_users(one.name.removeprefix(PREFIX))]
    if dry_run:
        would = "would be removed, unless a daemon or a container uses it"
        return [
            [one.name.removeprefix(PREFIX), _format_mib(_count_unshared_bytes(one)), would] for one in unused
        ]
    return [
        [
            one.name.removeprefix(PREFIX),
            _format_mib(_count_unshared_bytes(one)),
            asyncio.run(_remove_image(one.name)),
        ]
        for one in unused
    ]


async def _list_images() -> Sequence[ListedImage]:
    engine = await _open_engine()
    try:
        return await engine.list_images()
    finally:
        await engine.close()


async def _remove_image(name: str) -> str:
    engine = await _open_engine()
    try:
        await engine.remove_image(name)
    except EngineError as problem:
        if problem.code != "image.in_use":
            raise
        return f"kept: {problem.message}"
    finally:
        await engine.close()
    return "removed"


def _build_image_row(name: str, there: ListedImage | None, recipe: Recipe | None) -> list[str]:
    if there is None:
        what = "not built" if recipe is not None and recipe.on_demand else "missing"
        return [name, what, "", "", f"build it: assay images build {name}"]
    shared = "" if there.shared_bytes is None else _format_mib(there.shared_bytes)
    since = "" if there.loaded_at is None else format_age(time.time() - there.loaded_at)
    return [name, there.digest, _format_mib(there.size_bytes), shared, since]


def _count_unshared_bytes(image: ListedImage) -> int:
    return image.size_bytes - (image.shared_bytes or 0)


def _format_mib(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"


def _build_users_cell(image: str) -> Sequence[str]:
    """Return a table cell with the kinds and profiles that use an image, or with a word for none."""
    return (", ".join(_find_users(image)) or "nobody",)


def _find_users(image: str) -> Sequence[str]:
    from assayd.kinds import registry
    from assayd.settings import load_settings
    from assayd.wiring.profiles import load_profiles

    settings = load_settings()
    kinds = registry.load_validators(settings.validators).values()
    named = load_profiles(settings).get_profiles_by_image().get(image, ())
    parts = [f"kind {kind.name}" for kind in kinds if kind.image == image]
    return [*parts, *(f"profile {name}" for name in named)]


def load_recipes(shipped: Path | None = None) -> RecipeFolders:
    """Return the shipped recipes and the operator's recipes."""
    from assayd.imaging import RecipeFolders
    from assayd.kinds import registry
    from assayd.package_data import get_shared_data_path
    from assayd.settings import load_settings

    settings = load_settings()
    packaged = registry.find_data_folders(settings.validators, "images")
    return RecipeFolders(shipped or get_shared_data_path("images"), settings.images.recipes_dir, packaged)


def _build_and_load(recipe: Recipe, recipes: RecipeFolders, cache: Path, library: Path | None) -> ImageFacts:
    """Build and load an image. If the runner's memory baseline is unknown, measure and record it."""
    from assayd.imaging import build_image
    from assayd.imaging.building import UNMEASURED, store_baseline
    from assayd.imaging.tree import LABEL_FILES

    guest = Path(assayd.__file__).parent / "guest"

    def build_and_load() -> ImageFacts:
        machine = ConfiguredEngine() if recipe.source is not None else None
        archive = build_image(
            recipe.name,
            recipes=recipes,
            guest=guest,
            cache=cache,
            progress=_print_progress,
            library=library,
            machine=machine,
        )
        return asyncio.run(_load_image_if_new(recipe.name, archive))

    facts = build_and_load()
    if not facts.name.endswith(f":{UNMEASURED}"):
        return facts
    try:
        megabytes = asyncio.run(_measure_baseline(facts, recipe.preload))
    finally:
        asyncio.run(_remove_image(facts.name))
    _print_progress(f"its runner uses {megabytes} MB with preloaded modules, recorded as its baseline")
    store_baseline(cache, recipe.name, facts.labels[LABEL_FILES], megabytes)
    return build_and_load()


async def _find_unusable_images(names: Sequence[str], if_built: Sequence[str]) -> list[str]:
    """Return the names of images that are missing, damaged or of another version.

    Images in `if_built` that haven't been built aren't returned.
    """
    from assayd.sandbox.sandbox import ImageCache

    engine = await _open_engine()
    images, broken = ImageCache(engine, Path(assayd.__file__).parent / "guest"), []
    try:
        for name in (*names, *if_built):
            try:
                await images.look_up(name)
            except EngineError as problem:
                if name in names or problem.code != "image.missing":
                    _print_progress(f"{name}: {problem.message}")
                    broken.append(name)
            else:
                _print_progress(f"{name}: undamaged")
    finally:
        await engine.close()
    return broken


async def _measure_baseline(facts: ImageFacts, preload: Sequence[str]) -> int:
    from assayd.sandbox.baseline import measure_baseline_mb

    engine = await open_engine_without_templates()  # a clone shares its template's files
    try:
        return await measure_baseline_mb(engine, facts, tuple(preload))
    finally:
        await engine.close()


async def _load_image_if_new(name: str, archive: Path) -> ImageFacts:
    from assayd.imaging import read_image_id

    engine = await _open_engine()
    try:
        present = await _find_image(engine, name)
        if present is not None and present.digest == read_image_id(archive):
            return present
        return await engine.load_image(archive)
    finally:
        await engine.close()


async def _find_image(engine: Engine, name: str) -> ImageFacts | None:
    try:
        return await engine.image(f"assayd/{name}")
    except EngineError as error:
        if error.code in {"image.missing", "image.damaged"}:
            return None
        raise


async def _open_engine() -> Engine:
    from assayd.settings import load_settings
    from assayd.wiring.engine import choose_engine

    return (await choose_engine(load_settings())).engine


def _get_cache_folder() -> Path:
    if os.geteuid() == 0:
        return Path("/var/cache/assayd/images")
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "assayd" / "images"


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
