"""Prepares a foreign image for runs: its files in one layer, and the runner in another.

This module selects the Python for the runner: the image's own Python if it can run the guest code, otherwise
assayd's Python, which is added to the image. Programs of the image, including its Python, run only in a
container and never directly on this machine. No link is followed out of the image's root.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

from assayd.errors import AssaydError, ConfigError
from assayd.imaging import guest_file, inventory, modules, packages, rootfs, sbom
from assayd.imaging.archive import (
    CAPS,
    Image,
    LayeredRoot,
    UnpackLimits,
    pack_layer,
    remove_tree,
    write_archive,
)
from assayd.imaging.packages import BuildFolders, Progress
from assayd.imaging.recipe import Recipe, is_allowed_variable
from assayd.imaging.sbom import SBOM_FILE
from assayd.imaging.source import ImageSource, open_image_source, open_tar, unpack_layer
from assayd.imaging.tree import (
    LABEL_FILES,
    compute_digest,
    compute_guest_digest,
    compute_tree_digest,
    glob_in_root,
    list_guest_files,
    read_layer_entries,
    resolve_in_root,
)

HOME = ".assayd"
"""The top folder of an adopted image for assayd's own files. The image has no files in it."""
GUEST_FILE = f"{HOME}/guest.pyc"
OLDEST, NEWEST = 11, 13
"""The minor versions of Python that can run the guest code."""

_OWN = f"{HOME}/python"
_PYTHON_PATTERN = re.compile(r"python3\.([0-9]{1,2})", re.ASCII)
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9._+/-]+", re.ASCII)
_KNOWN_PROGRAMS = (
    "awk", "bash", "cc", "clang", "dash", "deno", "gcc", "go", "guile", "java", "julia", "lua", "node",
    "perl", "php", "R", "ruby", "rustc", "sh", "tcc", "tclsh",
)  # fmt: skip
"""Programs that a hint can name if an image has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePython:
    """A Python of an image. `path` is its executable. `libraries` lists folders with additional modules."""

    path: str
    minor: int
    libraries: Sequence[str]

    @property
    def is_compatible(self) -> bool:
        """Return whether the guest code runs on this Python."""
        return OLDEST <= self.minor <= NEWEST


def find_pythons(root: Path, folders: Sequence[str]) -> list[ImagePython]:
    """Return the Pythons of a root filesystem, beginning with the target of ``python3``."""
    names = ["python3", "python", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1))]
    places = ((folder.strip("/"), name) for name in names for folder in folders)
    found: dict[str, ImagePython] = {}
    for folder, name in places:
        one = _find_python(root, folder, name)
        if one is not None:
            found.setdefault(one.path, one)
    return list(found.values())


def find_known_programs(root: Path, folders: Sequence[str], pythons: Sequence[ImagePython]) -> list[str]:
    """Return the names of the well-known programs that a root filesystem contains."""
    named = [PurePosixPath(one.path).name for one in pythons]
    return named + [
        name for name in _KNOWN_PROGRAMS if any(_is_program(root, folder, name) for folder in folders)
    ]


def copy_interpreter(system: Path, recipe: Recipe, root: Path) -> None:
    """Copy a built image's interpreter with its standard library and linked libraries into `root`.

    A copied dynamic loader starts the interpreter (`build_start_command`), so that it uses no libraries
    of the image.
    """
    for folder in ("bin", "lib"):
        (root / _OWN / folder).mkdir(parents=True)
    program = f"python{recipe.python}"
    shutil.copy(resolve_in_root(system, f"usr/bin/{program}"), root / _OWN / "bin" / program)
    shutil.copytree(system / recipe.library, root / _OWN / "lib" / program, symlinks=True)
    for path in glob_in_root(system, "usr/lib/*/*.so*"):
        target = resolve_in_root(system, path.relative_to(system))
        if target.is_file():
            shutil.copy(target, root / _OWN / "lib" / path.name)


def build_start_command(system: Path, recipe: Recipe) -> list[str]:
    """Return the command that starts the copied interpreter.

    Raises: ConfigError ``image.python_broken``, if the image has no dynamic loader.
    """
    loader = next(iter(glob_in_root(system, "usr/lib/*/ld-linux*.so*")), None)
    if loader is None:
        raise ConfigError("image.python_broken", f"image {recipe.name!r} has no dynamic loader")
    libraries = f"/{_OWN}/lib"
    start = [f"{libraries}/{loader.name}", "--inhibit-cache", "--library-path", libraries]
    return [*start, f"/{_OWN}/bin/python{recipe.python}", "-I", "-S"]


def _is_program(root: Path, folder: str, name: str) -> bool:
    path = resolve_in_root(root, f"{folder.strip('/')}/{name}")
    return path.is_file() and bool(path.stat().st_mode & 0o100)


def _find_python(root: Path, folder: str, name: str) -> ImagePython | None:
    """Return the Python that a name in a folder refers to.

    Return None if the name isn't a program, its version is unclear, or its library doesn't exist.
    """
    if not _is_program(root, folder, name):
        return None
    program = resolve_in_root(root, f"{folder}/{name}")
    path = program.relative_to(root)
    prefix = path.parent.parent
    minors = (
        [match[1]]
        if (match := _PYTHON_PATTERN.fullmatch(program.name))
        else list(_find_minor_versions(root, prefix))
    )
    if len(minors) != 1 or not _PLAIN_PATTERN.fullmatch(path.as_posix()):
        return None
    if not resolve_in_root(root, prefix / f"lib/python3.{minors[0]}/os.py").is_file():
        return None
    prefixes = dict.fromkeys([PurePosixPath(folder).parent.as_posix(), prefix.as_posix()])
    return ImagePython(
        path=path.as_posix(),
        minor=int(minors[0]),
        libraries=[one for each in prefixes for one in _find_libraries(root, each, minors[0])],
    )


def _find_minor_versions(root: Path, prefix: Path) -> Iterator[str]:
    for library in glob_in_root(root, f"{prefix.as_posix()}/lib/python3.*"):
        if match := _PYTHON_PATTERN.fullmatch(library.name):
            yield match[1]


def _find_libraries(root: Path, prefix: str, minor: str) -> Iterator[str]:
    """Yield the package folders in the locations that CPython and Debian use."""
    for place in (
        f"local/lib/python3.{minor}/dist-packages",
        f"lib/python3.{minor}/site-packages",
        "lib/python3/dist-packages",
        f"lib/python3.{minor}/dist-packages",
    ):
        folder = f"{prefix}/{place}".removeprefix("./")
        if _PLAIN_PATTERN.fullmatch(folder) and resolve_in_root(root, folder).is_dir():
            yield folder


System = Callable[[], AbstractContextManager[tuple[Path, Recipe]]]
"""Provides the root folder of the image ``python``, with its recipe."""

_FACTS, _LAYER, _COMPILED, _SAID = "facts.json", "layer.tar", "guest.pyc", "guest.json"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KERNEL_FOLDERS = ("dev", "proc", "sys")
_EMPTY_FOLDERS = ("run", rootfs.SANDBOX)
_MAX_COMPILED_BYTES = 8 << 20
_VERSION = re.compile(r"3\.[0-9]{1,2}\.[0-9]{1,3}", re.ASCII)
_MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}=[A-Za-z0-9.+!_-]{1,32}", re.ASCII)
_MAX_MODULES = 500
_ACCOUNTS_BYTES = 2**20
"""Maximum bytes of a list of accounts."""
_MAX_SHOWN_NAMES = 10
_COMPILE_SCRIPT = f"""
import json, marshal, sys
from pathlib import Path
sys.path.insert(0, "/{HOME}/stage")
import guest_file, modules
guest = Path("/{HOME}/stage/guest")
body = guest_file.{guest_file.build_guest_file.__name__}(guest, "{rootfs.GUEST_PACKAGE}", "/{HOME}/guest")
there = modules.{modules.list_modules.__name__}([Path(folder) for folder in sys.argv[1:]])
names = {{"__name__": "guest"}}
exec(marshal.loads(body[16:]), names)
names["prepare"]()
said = {{"version": "%d.%d.%d" % sys.version_info[:3], "modules": there}}
sys.stdout.buffer.write(json.dumps(said).encode() + b"\\n" + body)
"""
"""Compiles the guest code with the image's own Python, and checks that all of it can be imported."""


class ImageEngine(Protocol):
    """The engine operations for adopting an image. Both can raise EngineError."""

    def save(self, image: str, archive: Path) -> None:
        """Write an image of a local engine to a file in the format of `docker save`."""
        ...

    def run_and_read_output(self, archive: Path) -> bytes:
        """Load an image, run its program in a container, remove both, and return the program's output."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedImage:
    """An adopted image: its recipe, its layers, and facts about its Python."""

    recipe: Recipe
    layers: Sequence[tuple[str, Path]]
    architecture: str
    python: str | None
    modules: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerFacts:
    """The cached facts about an unpacked layer of an image."""

    digest: str
    environment: Mapping[str, str]
    pythons: Sequence[ImagePython]
    programs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompiledGuest:
    """The guest code, compiled by the image's own Python, and facts about that Python."""

    version: str
    modules: Mapping[str, str]
    content: bytes


def adopt_image(
    recipe: Recipe, guest: Path, place: BuildFolders, machine: ImageEngine, system: System
) -> AdoptedImage:
    """Return the parts of an adopted image.

    Args:
        recipe: the operator's recipe, with source and lock.
        guest: the folder of the guest code.
        place: the folder that keeps the unpacked layer for later builds.
        machine: the engine that runs the image's Python, if the image has one.
        system: the image whose interpreter the runner uses if the adopted image has no suitable one.

    Raises: ConfigError ``image.lock_missing``, if no image was adopted; ``image.source_*``, if the image is
    missing, malformed, too large or has changed.
    """
    base = _ensure_unpacked_base(recipe, place, machine)
    facts = _read_facts(base)
    recipe = replace(
        recipe, environment=_build_environment(facts, recipe), offer=recipe.offer or _list_programs(facts)
    )
    layer = (facts.digest, base / _LAYER)
    for python in facts.pythons:
        compiled = (
            _compile_guest(python, recipe, guest, layer, place, machine) if python.is_compatible else None
        )
        if compiled is not None:
            return _adopt_with_own_python(python, compiled, recipe, layer, place.work)
    said = ", ".join(f"Python 3.{one.minor}" for one in facts.pythons) or "no Python"
    place.progress(
        f"it has {said}: the runner adds a Python for itself, and submissions can only "
        "run programs of the image (argv)"
    )
    return _adopt_with_shipped_python(recipe, layer, guest, place.work, system)


def compute_source_digest(where: str, tag: str | None, work: Path, machine: ImageEngine) -> str:
    """Return the digest of the image to be adopted.

    Raises: ConfigError ``image.source_*``, if it is missing, malformed or ambiguous.
    """
    with open_image_source(
        _resolve_path(where, work, machine), tag, packages.get_engine_architecture()
    ) as source:
        return source.digest


def _resolve_path(where: str, work: Path, machine: ImageEngine) -> Path:
    """Return the path of an image file. If a local engine has the image, save it to a file first.

    Raises: ConfigError ``image.source_missing``, if the file doesn't exist.
    """
    path = Path(where)
    if path.exists():
        return path.resolve()
    if where.startswith((".", "/")):
        raise ConfigError("image.source_missing", f"no image at {where}")
    archive = work / "saved.tar"
    machine.save(where, archive)
    return archive


def _ensure_unpacked_base(recipe: Recipe, place: BuildFolders, machine: ImageEngine) -> Path:
    """Return the folder with the image's layer. Unpack the image if necessary.

    Raises: ConfigError ``image.lock_missing``, if no image was adopted; ``image.source_differs``, if it has
    changed.
    """
    if recipe.source is None or recipe.source.locked is None:
        remedy = f"run: assay images adopt {recipe.name} --from IMAGE"
        raise ConfigError("image.lock_missing", f"no image was adopted for recipe {recipe.name}; {remedy}")
    code = [(name, path.read_bytes()) for name, path in list_guest_files(Path(__file__).parent)]
    key = compute_digest([("source", recipe.source.locked.encode()), *code])
    base = place.folder / key.removeprefix("sha256:")[:16]
    if not (base / _FACTS).is_file():
        made = Path(tempfile.mkdtemp(prefix="base-", dir=place.work))
        wanted, architecture = recipe.source, packages.get_engine_architecture()
        with open_image_source(
            _resolve_path(wanted.where, place.work, machine), wanted.tag, architecture
        ) as source:
            if source.digest != wanted.locked:
                message = (
                    f"{wanted.where} changed since adoption: it was {str(wanted.locked)[:19]}, "
                    f"and is {source.digest[:19]} now; to accept the change, run: assay images adopt "
                    f"{recipe.name}"
                )
                raise ConfigError("image.source_differs", message)
            facts = _unpack_image(source, made, place)
        (made / _FACTS).write_text(json.dumps(asdict(facts)))
        made.rename(base)
    return base


def _unpack_image(source: ImageSource, made: Path, place: BuildFolders) -> _LayerFacts:
    """Flatten an image into one layer, and return facts about it, such as its interpreters.

    Raises: ConfigError ``image.source_refused``, if the image is for another architecture.
    """
    own = packages.get_engine_architecture()
    if source.architecture != own:
        message = f"the image is for {source.architecture}, but this machine is {own}"
        raise ConfigError("image.source_refused", message)
    root = Path(tempfile.mkdtemp(prefix="root-", dir=place.work))
    flatten_layers(source, root, place)
    _add_mount_points(root)
    environment = dict(one.split("=", 1) for one in source.environment if "=" in one)
    folders = [part for part in environment.get("PATH", _DEFAULT_PATH).split(":") if part.startswith("/")]
    pythons = find_pythons(root, folders)
    programs = find_known_programs(root, folders, pythons)
    rootfs.write_image_file(
        root, SBOM_FILE, sbom.build_image_sbom(place.folder.name, inventory.list_root_packages(root))
    )
    digest = pack_layer(root, made / _LAYER, {rootfs.SANDBOX: rootfs.GUEST_UID})
    shutil.rmtree(root)
    _report_ignored_variables(environment, place.progress)
    return _LayerFacts(digest=digest, environment=environment, pythons=pythons, programs=programs)


def flatten_layers(source: ImageSource, root: Path, place: BuildFolders, caps: UnpackLimits = CAPS) -> None:
    """Apply the layers of an image to an empty folder. Report the omitted entries.

    Raises: ConfigError ``image.source_refused``, if an entry isn't allowed; ``image.source_too_large``, if
    the image exceeds `caps`; OSError or ValueError, if a layer is malformed.
    """
    if len(source.layers) > caps.layers:
        message = f"the image has {len(source.layers)} layers; the limit is {caps.layers}"
        raise ConfigError("image.source_too_large", message)
    layered = LayeredRoot(root, caps)
    for number, layer in enumerate(source.layers, 1):
        place.progress(f"unpacking layer {number} of {len(source.layers)}")
        tar = place.work / "unpacked.tar"
        unpack_layer(source, layer, tar, caps.unpacked_bytes)
        with tar.open("rb") as file, open_tar(file) as members:
            layered.apply_layer(members)
        tar.unlink()
    for reason, names in layered.removed.items():
        more = f" and {len(names) - _MAX_SHOWN_NAMES} more" if len(names) > _MAX_SHOWN_NAMES else ""
        place.progress(f"omitted, as {reason}: {', '.join(names[:_MAX_SHOWN_NAMES])}{more}")


def _add_mount_points(root: Path) -> None:
    """Create the mount points of containers, and an account for their processes."""
    for name in (*_KERNEL_FOLDERS, *_EMPTY_FOLDERS, HOME):
        if name in _KERNEL_FOLDERS or name in {rootfs.SANDBOX, HOME} or not _is_folder(root / name):
            remove_tree(root / name)
        if name != HOME:
            (root / name).mkdir(exist_ok=True)
    rootfs.link_tmp(root)
    for name, line in rootfs.GUEST_ACCOUNT.items():
        path = resolve_in_root(root, name)
        if path.is_file() and path.stat().st_size > _ACCOUNTS_BYTES:
            message = f"/{name} of the image has more than {_ACCOUNTS_BYTES >> 20} MiB; take a smaller image"
            raise ConfigError("image.source_too_large", message)
        if path.is_file() and f":{rootfs.GUEST_UID}:".encode() not in path.read_bytes():
            rootfs.write_image_file(root, name, path.read_bytes().rstrip(b"\n") + b"\n" + line.encode())
        elif not path.exists() and _is_folder(path.parent):
            rootfs.write_image_file(root, name, line.encode())


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _report_ignored_variables(environment: Mapping[str, str], progress: Progress) -> None:
    left = [name for name in environment if name not in {"PATH", "LANG"} and not is_allowed_variable(name)]
    if left:
        progress(f"ignored environment variables of the image: {', '.join(sorted(left)[:_MAX_SHOWN_NAMES])}")


def _read_facts(base: Path) -> _LayerFacts:
    held = json.loads((base / _FACTS).read_text())
    return _LayerFacts(**{**held, "pythons": [ImagePython(**one) for one in held["pythons"]]})


def _build_environment(facts: _LayerFacts, recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the environment for the image's programs: the image's variables and the recipe's overrides."""
    taken = {name: text for name, text in facts.environment.items() if is_allowed_variable(name)}
    fixed = {
        "PATH": facts.environment.get("PATH", _DEFAULT_PATH),
        "LANG": facts.environment.get("LANG", "C.UTF-8"),
    }
    return tuple(sorted({**taken, **dict(recipe.environment), **fixed}.items()))


def _list_programs(facts: _LayerFacts) -> str:
    return ", ".join(facts.programs) or "programs that aren't listed"


def _compile_guest(
    python: ImagePython,
    recipe: Recipe,
    guest: Path,
    layer: tuple[str, Path],
    place: BuildFolders,
    machine: ImageEngine,
) -> _CompiledGuest | None:
    """Compile the guest code in a container of the image. Return None if the image's Python can't do so."""
    kept = layer[1].parent / f"{compute_guest_digest(guest).removeprefix('sha256:')[:16]}-3.{python.minor}"
    if (kept / _SAID).is_file():
        held = json.loads((kept / _SAID).read_text())
        return _CompiledGuest(content=(kept / _COMPILED).read_bytes(), **held)
    place.progress(f"trying its Python 3.{python.minor}, in a container")
    archive = _write_compile_image(python, recipe, guest, layer, place.work)
    try:
        compiled = _parse_compile_output(machine.run_and_read_output(archive), python)
    except AssaydError as problem:
        place.progress(f"its Python 3.{python.minor} can't run the runner: {problem.message[:300]}")
        return None
    finally:
        archive.unlink()
    kept.mkdir(exist_ok=True)
    (kept / _COMPILED).write_bytes(compiled.content)
    (kept / _SAID).write_text(json.dumps({"version": compiled.version, "modules": dict(compiled.modules)}))
    return compiled


def _write_compile_image(
    python: ImagePython, recipe: Recipe, guest: Path, below: tuple[str, Path], work: Path
) -> Path:
    """Write an image that compiles the guest code and prints the result."""
    root = Path(tempfile.mkdtemp(prefix="stage-", dir=work))
    place = root / HOME / "stage"
    place.mkdir(parents=True)
    for module in (guest_file, modules):
        shutil.copy(str(module.__file__), place)
    for name, path in list_guest_files(guest):
        (place / "guest" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / "guest" / name)
    layer = work / "stage.tar"
    both = [below, (pack_layer(root, layer), layer)]
    folders = [f"/{folder}" for folder in python.libraries]
    image = Image(
        tag=f"assayd/{recipe.name}:stage",
        architecture=packages.get_engine_architecture(),
        user=f"{rootfs.GUEST_UID}:{rootfs.GUEST_UID}",
        entrypoint=[f"/{python.path}", "-I", "-S", "-c", _COMPILE_SCRIPT, *folders],
        environment=dict(recipe.environment),
        labels={LABEL_FILES: compute_tree_digest(read_layer_entries([path for _, path in both]))},
    )
    archive = work / "stage-image.tar"
    write_archive(archive, image, both)
    return archive


def _parse_compile_output(printed: bytes, python: ImagePython) -> _CompiledGuest:
    """Return the compiled guest code from the output of an untrusted interpreter.

    Raises: ConfigError ``image.python_broken``, if the output is malformed.
    """
    head, _, content = printed.partition(b"\n")
    try:
        said = json.loads(head)
        version, named = str(said["version"]), dict(said["modules"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError("image.python_broken", "it didn't name its compiled files") from error
    if not _VERSION.fullmatch(version) or version.split(".")[1] != str(python.minor):
        raise ConfigError("image.python_broken", f"it says that it is {version[:20]!a}")
    if not 0 < len(content) <= _MAX_COMPILED_BYTES:
        raise ConfigError("image.python_broken", f"it compiled {len(content)} bytes")
    return _CompiledGuest(version=version, modules=_filter_modules(named.items()), content=content)


def _filter_modules(named: Iterable[tuple[object, object]]) -> dict[str, str]:
    """Return the modules that have valid names and versions, from the first 500."""
    found = (f"{name}={version}" for name, version in list(named)[:_MAX_MODULES])
    return dict(text.split("=", 1) for text in found if _MODULE.fullmatch(text))


def _adopt_with_own_python(
    python: ImagePython, compiled: _CompiledGuest, recipe: Recipe, layer: tuple[str, Path], work: Path
) -> AdoptedImage:
    root = Path(tempfile.mkdtemp(prefix="guest-", dir=work))
    rootfs.write_image_file(root, GUEST_FILE, compiled.content)
    start = [f"/{python.path}", "-I", "-S"]
    return _build_result(
        replace(recipe, python=f"3.{python.minor}", python_path=tuple(python.libraries)),
        [layer, (pack_layer(root, work / "guest.tar"), work / "guest.tar")],
        start,
        python=compiled.version,
        modules=compiled.modules,
    )


def _adopt_with_shipped_python(
    recipe: Recipe, layer: tuple[str, Path], guest: Path, work: Path, system: System
) -> AdoptedImage:
    runner, root = work / "runner", work / "guest"
    with system() as (shipped, python):
        copy_interpreter(shipped, python, runner)
        rootfs.write_guest(guest, shipped, root, python, GUEST_FILE)
        start = build_start_command(shipped, python)
    packed = [
        (pack_layer(each, each.with_suffix(".tar")), each.with_suffix(".tar")) for each in (runner, root)
    ]
    return _build_result(recipe, [layer, *packed], start, labels={"org.assayd.runner": "own"})


def _build_result(
    recipe: Recipe,
    layers: Sequence[tuple[str, Path]],
    start: Sequence[str],
    *,
    python: str | None = None,
    modules: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> AdoptedImage:
    said = {"org.assayd.interpreter": " ".join(start)}
    if recipe.source is not None and recipe.source.locked is not None:
        said["org.assayd.adopted"] = recipe.source.locked
    return AdoptedImage(
        recipe=replace(recipe, entrypoint=(*start, f"/{GUEST_FILE}")),
        layers=layers,
        architecture=packages.get_engine_architecture(),
        python=python,
        modules=modules or {},
        labels={**said, **(labels or {})},
    )
