"""Finds and imports the optional packages that implement some commands of `assay`.

The client's wheel contains none of these packages. They are in wheels that depend on the client's wheel and
on the libraries that the commands need. The client refers to them by name and doesn't import them directly.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from assayd.errors import RequestError

PARTS: Mapping[str, str] = MappingProxyType(
    {
        "assayd_attestation": "verify",
        "assayd_compat": "",
        "assayd_console": "console",
        "assayd_lsp": "lsp",
        "assayd_mcp": "mcp",
        "assayd_pipeline_commands": "pipeline",
        "assayd_screens": "screens",
    }
)
"""The extra of assayd-client that installs each package; empty if only the daemon's wheel contains it."""


def find_missing_part(reference: str) -> str | None:
    """Return the optional package in a reference ``package.module:name`` if it isn't installed, or None."""
    package = reference.partition(".")[0]
    return package if package in PARTS and find_spec(package) is None else None


def format_missing_part(package: str) -> str:
    """Return the instruction to install an optional package."""
    return (
        f"install the wheel {package.replace('_', '-')}" if PARTS[package] else "install the package assayd"
    )


def build_missing_part_error(command: str, package: str, otherwise: str = "") -> RequestError:
    """Return the error for a missing package; `otherwise` describes an alternative."""
    message = f"assay {command} needs a package that isn't installed: {format_missing_part(package)}"
    return RequestError("usage", f"{message}{otherwise and f', or {otherwise}'}")


def build_missing_library_error(command: str, library: str) -> RequestError:
    """Return the error for a missing library, with the command that installs it.

    The command names no package of the project, because anyone can register its names in a package index.
    """
    return RequestError("usage", f"assay {command} needs the package `{library}`: pip install {library}")


def import_part(reference: str, command: str, otherwise: str = "") -> Any:
    """Return the object that a reference ``package.module:name`` to an optional package names.

    Raises: RequestError ``usage``, if the package isn't installed.
    """
    if (package := find_missing_part(reference)) is not None:
        raise build_missing_part_error(command, package, otherwise)
    return pkgutil.resolve_name(reference)
