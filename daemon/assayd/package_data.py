"""Locates the files that are distributed with the program but aren't Python code.

This module determines only the location of the files: the folders of the checkout, or `_share/` in an
installed wheel. Callers read the files.
"""

from pathlib import Path

from assayd.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
# Name -> folder in a checkout. pyproject.toml maps the same three into the wheel as `_share/<name>`.
_CHECKOUT_DIR_BY_NAME = {"images": "images", "policies": "policies", "seccomp": "deploy/seccomp"}


def get_shared_data_path(name: str, *parts: str) -> Path:
    """Return the path of a shared file or folder.

    Args:
        name: ``images``, ``policies`` or ``seccomp``.
        parts: the path below that folder, whose existence isn't checked.

    Raises:
        ConfigError: ``install.share_missing``, if the folder is in neither location.
    """
    checkout = _PACKAGE.parents[1] / _CHECKOUT_DIR_BY_NAME[name]
    for folder in (_PACKAGE / "_share" / name, checkout):
        if folder.is_dir():
            return folder.joinpath(*parts)
    message = f"the {name!r} folder is missing; reinstall the package"
    raise ConfigError("install.share_missing", message)
