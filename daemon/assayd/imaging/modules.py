"""Lists the modules in library folders with the versions in their distributions' metadata."""

from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path


def list_modules(folders: Sequence[Path]) -> dict[str, str]:
    """Return importable top-level names with versions. For a repeated name, use its first distribution."""
    found: dict[str, str] = {}
    for distribution in distributions(path=[str(folder) for folder in folders]):
        for name in _iter_top_level_names(distribution):
            if name.isidentifier() and not name.startswith("_"):
                found.setdefault(name, distribution.version)
    return found


def _iter_top_level_names(distribution: Distribution) -> Iterator[str]:
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        yield from listed.split()
        return
    for file in distribution.files or ():
        if file.suffix in {".py", ".so"}:
            yield file.parts[0].partition(".")[0]
