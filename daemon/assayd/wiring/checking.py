"""Implements the checks of `assayd --check-config` that go beyond the format of settings."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from assayd.errors import ConfigError
from assayd.kinds import registry
from assayd.settings import Settings
from assayd.wiring.profiles import load_profiles, missing_policies


def check_settings(settings: Settings) -> None:
    """Ensure that a daemon with these settings can start and serve every kind.

    Raises: ConfigError, also for problems in policy files.
    """
    kinds = registry.load(settings.validators)
    policies = load_profiles(settings)
    for kind, policy in missing_policies(kinds, policies).items():
        message = (
            f"the kind {kind} needs the policy {policy}, but no file defines it: put {policy}.toml into "
            "a folder of `policy_folders`, or remove the kind from `validators`"
        )
        raise ConfigError("kind.no_policy", message, field="validators")
    _require_folder(settings.state_dir.absolute())


def _require_folder(state_dir: Path) -> None:
    """Ensure that the state directory exists or that this user can create it. Raises: ConfigError."""
    there = next(each for each in (state_dir, *state_dir.parents) if os.path.lexists(each))
    is_folder = os.path.isdir(there)  # noqa: PTH112  (Path.is_dir() may raise)
    # An existing one may belong to the daemon's user, while another user checks the settings.
    if is_folder and (there == state_dir or _is_writable(there)):
        return
    why = f"{there} isn't a folder that this user may write to"
    raise ConfigError("state.unusable", f"state_dir: can't use {state_dir}: {why}", field="state_dir")


def _is_writable(folder: Path) -> bool:
    """Return whether this user can create a subfolder. For root, the file mode doesn't determine this."""
    try:
        with TemporaryDirectory(prefix=".assayd-", dir=folder):
            return True
    except OSError:
        return False
