"""The policies that settings mean: the shipped profiles, and the operator's own over them."""

from __future__ import annotations

from assayd.package_data import share
from assayd.policies import PolicySet, load_policies
from assayd.settings import OWN_POLICIES, Settings


def load_profiles(settings: Settings) -> PolicySet:
    """Load all profiles that are in use.

    Raises:
        FileError: with every problem of every file.
    """
    own = [folder for folder in settings.policy_folders if folder != OWN_POLICIES or folder.is_dir()]
    folders = [share("policies"), *own]
    return load_policies(
        folders,
        bounds=settings.bounds.bounds(),
        widest=settings.widest_bounds.bounds(),
        egress=settings.egress.enabled,
    )
