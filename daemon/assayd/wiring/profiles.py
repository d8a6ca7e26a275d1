"""Loads the policies that the settings select: the shipped profiles and the operator's profiles.

It also implements the checks of `assayd --check-config` that go beyond the format of settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from assayd.errors import ConfigError
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies
from assayd.settings import OWN_POLICIES, Settings


def find_missing_policies(kinds: Mapping[str, Kind], policies: PolicySet) -> dict[str, str]:
    """Return the names of default policies without a file, keyed by the kinds that need them."""
    return {
        name: kind.default_policy for name, kind in kinds.items() if kind.default_policy not in policies.names
    }


def load_profiles(settings: Settings) -> PolicySet:
    """Load all profiles that the settings select.

    Raises:
        FileError: a file has a problem; the error contains the problems of all files.
    """
    own = [folder for folder in settings.policy_folders if folder != OWN_POLICIES or folder.is_dir()]
    packaged = registry.find_data_folders(settings.validators, "policies")
    folders = [get_shared_data_path("policies"), *packaged, *own]
    return load_policies(
        folders,
        bounds=settings.bounds.bounds(),
        widest=settings.widest_bounds.bounds(),
        egress=settings.egress.enabled,
    )


def check_settings(settings: Settings) -> None:
    """Check that a daemon with these settings can start and serve every kind.

    Raises: ConfigError, if a policy is missing, a policy file has a problem, or the state directory can't be
    used.
    """
    kinds = registry.load_validators(settings.validators)
    policies = load_profiles(settings)
    for kind, policy in find_missing_policies(kinds, policies).items():
        message = (
            f"the kind {kind} needs the policy {policy}, but no file defines it: put {policy}.toml into "
            "a folder of `policy_folders`, or remove the kind from `validators`"
        )
        raise ConfigError("kind.no_policy", message, field="validators")
    _require_folder(settings.state_dir.absolute())


def _require_folder(state_dir: Path) -> None:
    """Check that the state directory exists or that this user can create it. Raises: ConfigError, if not."""
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
