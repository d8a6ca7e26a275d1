"""Loads the policies that the settings select: the shipped profiles and the operator's profiles."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.kind import Kind
from assayd.kinds import registry
from assayd.package_data import share
from assayd.policies import PolicySet, load_policies
from assayd.settings import OWN_POLICIES, Settings


def missing_policies(kinds: Mapping[str, Kind], policies: PolicySet) -> dict[str, str]:
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
    packaged = registry.data_folders(settings.validators, "policies")
    folders = [share("policies"), *packaged, *own]
    return load_policies(
        folders,
        bounds=settings.bounds.bounds(),
        widest=settings.widest_bounds.bounds(),
        egress=settings.egress.enabled,
    )
