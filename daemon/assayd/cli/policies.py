"""`assay policy check`: profiles as the daemon would load them, by the settings of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assayd.policies import load_policies
from assayd.settings import load_settings
from assayd.share import share
from assayd.tomlfile import FileError, Problem


def check(file: Path | None) -> Sequence[Problem]:
    """Give what is wrong with a file beside the profiles in use, or with those themselves."""
    settings = load_settings()
    try:
        policies = load_policies(
            [share("policies"), *settings.policy_folders],
            bounds=settings.bounds.bounds(),
            widest=settings.widest_bounds.bounds(),
            egress=settings.egress.enabled,
        )
    except FileError as error:
        return error.problems
    return policies.check_file(file) if file is not None else ()
