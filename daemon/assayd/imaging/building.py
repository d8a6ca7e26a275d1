"""Builds one image, from its recipe to the file that an engine loads.

An image has two layers: the distribution's packages, and the guest code. The first layer is cached by
recipe, package lists and this code. The second layer changes often and takes a second to build.
`Engine.load_image` loads the file. Measured memory baselines are stored next to the archives.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging import inventory, packages, rootfs, sbom
from assayd.imaging.adopting import ImageEngine, System, adopt_image
from assayd.imaging.archive import Image, pack_layer, write_archive
from assayd.imaging.modules import list_modules
from assayd.imaging.packages import BuildFolders, Progress, lock_build_folders
from assayd.imaging.recipe import Recipe, RecipeFolders
from assayd.imaging.sbom import SBOM_FILE
from assayd.imaging.tree import (
    LABEL_BASELINE,
    LABEL_FILES,
    compute_digest,
    compute_guest_digest,
    compute_library_digest,
    compute_tree_digest,
    list_guest_files,
    read_layer_entries,
    resolve_in_root,
)
from assayd.imaging.wheels import SITE, install_wheels

_FACTS_FILE = "facts.json"
_ROOT = "root"
_LAYER = "layer.tar"
_MAX_NAMED_FILES = 40
_PYTHON_IMAGE = "python"
"""The image whose interpreter is added to images without a suitable one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BaseFacts:
    """The facts about a cached base layer."""

    digest: str
    architecture: str
    python: str | None
    modules: dict[str, str]
    """Modules of its Python besides the standard library: importable name, version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ImageParts:
    """The recipe and layers of an image before packing."""

    recipe: Recipe
    layers: Sequence[tuple[str, Path]]
    architecture: str
    labels: Mapping[str, str]


def build_image(  # noqa: PLR0913 - all by name
    name: str,
    *,
    recipes: RecipeFolders,
    guest: Path,
    cache: Path,
    progress: Progress,
    library: Path | None = None,
    machine: ImageEngine | None = None,
) -> Path:
    """Build image `name`, and return the path of its archive (``<cache>/<name>/image.tar``).

    The build takes between a second (if cached) and a minute; several processes can build at the same time.
    If the baseline must be measured first, the image is tagged `UNMEASURED` and, after the measurement,
    built again.

    Args:
        name: the folder name of the recipe.
        recipes: the existing recipes.
        guest: the folder of the guest code.
        cache: the folder for unpacked packages and archives; can be deleted at any time.
        progress: called with one line per step.
        library: a folder whose files go into the image, if the recipe supports that.
        machine: an engine, required for adopted images.

    Raises:
        ConfigError: ``image.*``, if the recipe, the guest code or this machine prevents the build.
    """
    recipe = recipes.load(name)
    if recipe.source is not None and library is not None:
        raise ConfigError("image.library", f"image {name!r} is adopted, so it can't have a library")
    if (recipe.guest or recipe.source) and not (guest / "__main__.py").is_file():
        raise ConfigError("image.guest_missing", f"no guest code in {guest}: __main__.py is missing")
    with lock_build_folders(cache.resolve() / name, progress) as place:
        if recipe.source is None:
            made = _build_from_packages(recipe, guest, library, place)
        else:
            made = _build_from_source(
                recipe, guest, place, machine, partial(_open_shipped_python_root, recipes, cache, progress)
            )
        archive = place.work / "image.tar"
        files = compute_tree_digest(read_layer_entries([layer for _, layer in made.layers]))
        labels = {**made.labels, LABEL_FILES: files}
        if (baseline_mb := recipe.baseline_mb or read_baseline(cache, name, files)) is not None:
            labels[LABEL_BASELINE] = str(baseline_mb * 2**20)
        tag = UNMEASURED if baseline_mb is None and recipe.needs_measurement else "latest"
        identity = write_archive(archive, _build_image(made, labels, tag), made.layers)
        progress(f"built assayd/{name} ({identity[7:19]}, {archive.stat().st_size / 1e6:.0f} MB)")
        return archive.replace(place.folder / "image.tar")


def _build_from_packages(
    recipe: Recipe, guest: Path, library: Path | None, place: BuildFolders
) -> _ImageParts:
    base = _ensure_base(recipe, place.folder, place.work, place.progress)
    facts = _BaseFacts(**json.loads((base / _FACTS_FILE).read_text()))
    layers = [(facts.digest, base / _LAYER)]
    if recipe.guest:
        layers.append(_build_guest_layer(recipe, guest, base / _ROOT, place.work))
    if library is not None:
        layers.append(_build_library_layer(recipe, library, place.work))
    labels = _build_labels(recipe, facts.python, facts.modules, guest=guest if recipe.guest else None)
    if library is not None:
        labels["org.assayd.library"] = compute_library_digest(library)
    return _ImageParts(recipe=recipe, layers=layers, architecture=facts.architecture, labels=labels)


def _build_from_source(
    recipe: Recipe, guest: Path, place: BuildFolders, machine: ImageEngine | None, system: System
) -> _ImageParts:
    if machine is None:
        raise ConfigError("image.no_engine", f"image {recipe.name!r} is adopted, which needs an engine")
    found = adopt_image(recipe, guest, place, machine, system)
    labels = _build_labels(found.recipe, found.python, found.modules, guest=guest)
    return _ImageParts(
        recipe=found.recipe,
        layers=found.layers,
        architecture=found.architecture,
        labels={**labels, **found.labels},
    )


@contextlib.contextmanager
def _open_shipped_python_root(
    recipes: RecipeFolders, cache: Path, progress: Progress
) -> Iterator[tuple[Path, Recipe]]:
    """Yield the root folder of the shipped image whose interpreter is added to other images."""
    recipe = recipes.load(_PYTHON_IMAGE)
    with lock_build_folders(cache.resolve() / _PYTHON_IMAGE, progress) as place:
        yield _ensure_base(recipe, place.folder, place.work, progress) / _ROOT, recipe


def _ensure_base(recipe: Recipe, folder: Path, work: Path, progress: Progress) -> Path:
    """Return the cached base for the current package lists. Build it if necessary.

    If a build fails, refresh outdated package lists if possible, and build again.

    Raises: ConfigError ``image.*``, if the build fails.
    """
    sources = packages.list_apt_sources()
    if not sources and packages.can_refresh_package_lists():
        packages.refresh_package_lists(progress)
        sources = packages.list_apt_sources()
    try:
        return _ensure_base_for_lists(recipe, sources, folder, work, progress)
    except ConfigError as error:
        # Outdated lists name packages that the archive has removed.
        if error.code != "image.packages_failed" or not packages.can_refresh_package_lists():
            raise
        packages.refresh_package_lists(progress)
        return _ensure_base_for_lists(recipe, packages.list_apt_sources(), folder, work, progress)


def _ensure_base_for_lists(
    recipe: Recipe, sources: Sequence[packages.PackageSource], folder: Path, work: Path, progress: Progress
) -> Path:
    if not sources:
        message = "apt has no package lists of the distribution: run 'apt-get update'"
        raise ConfigError("image.no_sources", message)
    code = [(name, path.read_bytes()) for name, path in list_guest_files(Path(__file__).parent)]
    state = packages.compute_package_lists_digest(sources)
    key = compute_digest([("recipe", recipe.digest.encode()), ("lists", state.encode()), *code])
    base = folder / key.removeprefix("sha256:")[:16]
    if not (base / _FACTS_FILE).is_file():
        _build_base(recipe, sources, base, work, progress)
    _remove_other_folders(folder, base, work)
    return base


def _build_base(
    recipe: Recipe, sources: Sequence[packages.PackageSource], base: Path, work: Path, progress: Progress
) -> None:
    packages.require_mmdebstrap(progress)
    made = Path(tempfile.mkdtemp(prefix="base-", dir=work))
    root = made / _ROOT
    root.mkdir()
    tar, extracted = packages.extract_packages(recipe.packages, sources, work, progress)
    rootfs.unpack_packages(tar, root)
    tar.unlink()
    _report_pruned(rootfs.prune_files(root, recipe), recipe, progress)
    left = [each.package for each in extracted if any(_remains_in_image(root, name) for name in each.files)]
    rootfs.add_system_files(root, recipe)
    _add_operator_content(recipe, root, progress)
    rootfs.write_image_file(
        root, SBOM_FILE, sbom.build_image_sbom(recipe.name, inventory.list_root_packages(root, left))
    )
    version = None
    if recipe.python is not None:
        progress("compiling the Python library")
        rootfs.compile_python(root, root, [recipe.library, *recipe.python_path], recipe)
        version = rootfs.read_python_version(root, recipe)
    digest = pack_layer(root, made / _LAYER, {rootfs.SANDBOX: rootfs.GUEST_UID})
    facts = _BaseFacts(
        digest=digest,
        architecture=packages.get_engine_architecture(),
        python=version,
        modules=list_modules([resolve_in_root(root, folder) for folder in recipe.python_path]),
    )
    (made / _FACTS_FILE).write_text(json.dumps(asdict(facts)))
    made.rename(base)


def _remains_in_image(root: Path, name: str) -> bool:
    """Return whether a package's file remains in the image after the recipe's removals."""
    path = resolve_in_root(root, PurePosixPath(name).parent) / PurePosixPath(name).name
    return path.is_symlink() or path.exists()


def _add_operator_content(recipe: Recipe, root: Path, progress: Progress) -> None:
    """Add the wheels and files of an operator's recipe."""
    if recipe.lock is not None and recipe.python is not None:
        progress(f"installing the wheels of {recipe.lock.path}")
        install_wheels(recipe.lock, recipe.python_packages, recipe.python, root)
        _report_pruned(rootfs.disable_programs(resolve_in_root(root, SITE)), recipe, progress)
    for place, path in recipe.files:
        rootfs.write_image_file(root, place, path.read_bytes())


def _report_pruned(removed: Sequence[str], recipe: Recipe, progress: Progress) -> None:
    """Report the number of removed programs. For an operator's recipe, also report their names."""
    if removed:
        more = f" and {len(removed) - _MAX_NAMED_FILES} more" if len(removed) > _MAX_NAMED_FILES else ""
        named = f": {', '.join(removed[:_MAX_NAMED_FILES])}{more}" if recipe.extends else ""
        progress(f"removed {len(removed)} programs that the recipe doesn't list{named}")


def _build_guest_layer(recipe: Recipe, guest: Path, system: Path, work: Path) -> tuple[str, Path]:
    root, layer = work / "guest", work / "guest.tar"
    root.mkdir()
    rootfs.write_guest(guest, system, root, recipe)
    return pack_layer(root, layer), layer


def _build_library_layer(recipe: Recipe, library: Path, work: Path) -> tuple[str, Path]:
    if recipe.library_folder is None or not library.is_dir():
        problem = "doesn't allow a library" if library.is_dir() else f"can't add {library}: it isn't a folder"
        raise ConfigError("image.library", f"image {recipe.name!r} {problem}")
    root, layer = work / "library", work / "library.tar"
    root.mkdir()
    rootfs.copy_library(library, root, recipe.library_folder)
    return pack_layer(root, layer), layer


def _build_labels(
    recipe: Recipe, python: str | None, modules: Mapping[str, str], *, guest: Path | None
) -> dict[str, str]:
    named = (f"{name}={version}" for name, version in sorted(modules.items()))
    stated = {
        "org.assayd.constants": " ".join(recipe.constants),
        "org.assayd.guest": compute_guest_digest(guest) if guest is not None else "",
        "org.assayd.image": recipe.name,
        "org.assayd.modules": " ".join(named),
        "org.assayd.offer": recipe.offer,
        "org.assayd.preload": " ".join(recipe.preload),
        "org.assayd.python": python or "",
        "org.assayd.recipe": recipe.digest,
    }
    return {name: text for name, text in stated.items() if text}


def _build_image(made: _ImageParts, labels: Mapping[str, str], tag: str) -> Image:
    recipe = made.recipe
    environment = dict(recipe.environment)
    if recipe.constants:
        environment["ASSAYD_CONSTANTS"] = ":".join(recipe.constants)
    if recipe.python_path:
        environment["ASSAYD_PYTHON_PATH"] = ":".join(f"/{folder}" for folder in recipe.python_path)
    return Image(
        tag=f"assayd/{recipe.name}:{tag}",
        architecture=made.architecture,
        user=f"{rootfs.GUEST_UID}:{rootfs.GUEST_UID}",
        entrypoint=recipe.entrypoint,
        environment=environment,
        labels=labels,
    )


def _remove_other_folders(folder: Path, *kept: Path) -> None:
    """Remove the bases of older recipes and package lists, and the leftovers of killed builds."""
    for path in folder.iterdir():
        if path.is_dir() and path not in kept:
            shutil.rmtree(path)


UNMEASURED = "unmeasured"
"""Tag of an image whose baseline is unknown; such an image never gets the name that runs use."""
_BASELINES = "baselines.json"


def read_baseline(cache: Path, name: str, files: str) -> int | None:
    """Return an image's measured baseline in megabytes, or None if its content wasn't measured."""
    path = cache / name / _BASELINES
    found = json.loads(path.read_text()) if path.is_file() else {}
    megabytes = found.get(files)
    return megabytes if type(megabytes) is int else None


def store_baseline(cache: Path, name: str, files: str, megabytes: int) -> None:
    """Store the measured baseline, and delete the baselines of other image contents."""
    (cache / name / _BASELINES).write_text(json.dumps({files: megabytes}))
