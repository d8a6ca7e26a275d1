"""Which optional packages a verb needs, and how they are installed here."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from assayd.errors import RequestError


def missing(verb: str, package: str, find: Callable[[str], object] = find_spec) -> RequestError:
    """Return the error for a package that is not installed, with the extra of the distribution that is."""
    distribution = "assayd-client" if find("assayd.daemon") is None else "assayd"
    message = f"assay {verb} needs the package `{package}`: pip install '{distribution}[{verb}]'"
    return RequestError("usage", message)
