"""Where the files are that come with the program but are not Python.

Decides only the place: the checkout's own folders, or `_share/` of an installed wheel. Reading is left to
callers.
"""

from pathlib import Path

from assayd.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
# Name -> folder in a checkout. pyproject.toml maps the same three into the wheel as `_share/<name>`.
_IN_CHECKOUT = {"images": "images", "policies": "policies", "seccomp": "deploy/seccomp"}


def share(name: str, *parts: str) -> Path:
    """Return the path of a shared file or folder.

    Args:
        name: ``images``, ``policies`` or ``seccomp``.
        parts: path below that folder; not checked.

    Raises:
        ConfigError: ``install.share_missing``, when the folder is in neither place.
    """
    checkout = _PACKAGE.parents[1] / _IN_CHECKOUT[name]
    for folder in (_PACKAGE / "_share" / name, checkout):
        if folder.is_dir():
            return folder.joinpath(*parts)
    message = f"the {name!r} folder is missing; reinstall the package"
    raise ConfigError("install.share_missing", message)
