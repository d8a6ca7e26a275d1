"""`assay policy check`: profiles as the daemon would load them, by the settings of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assayd.profiles import load_profiles
from assayd.settings import load_settings
from assayd.tomlfile import FileError, Problem


def check(file: Path | None) -> Sequence[Problem]:
    """Give what is wrong with a file beside the profiles in use, or with those themselves."""
    try:
        policies = load_profiles(load_settings())
    except FileError as error:
        return error.problems
    return policies.check_file(file) if file is not None else ()
