"""Lists published container escapes by the affected versions of runtimes.

The list is informational; whether the daemon serves requests is decided by the canary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """A published container escape, with the first fixed version of each maintained release series."""

    program: str
    name: str
    what: str
    fixed_in: tuple[Version, ...]


# Only what one of our containers could use: no mounts, no capabilities, no network, no build.
VULNERABILITIES = (
    Vulnerability(
        program="crun",
        name="CVE-2019-18837",
        what="a link in an image leads the runtime to the host's files",
        fixed_in=((0, 10, 5),),
    ),
    Vulnerability(
        program="runc",
        name="CVE-2019-5736",
        what="a container can overwrite the runtime on the host",
        fixed_in=((1, 0, 0),),
    ),
    Vulnerability(
        program="runc",
        name="CVE-2024-21626",
        what="a descriptor of the host's file system leaks into the container",
        fixed_in=((1, 1, 12),),
    ),
    Vulnerability(
        program="runc",
        name="CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        what="races while paths are masked let a container write to the host's /proc",
        fixed_in=((1, 2, 8), (1, 3, 3), (1, 4, 0)),
    ),
)


def find_known_vulnerabilities(versions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the published vulnerabilities of the installed program versions.

    A distribution may have backported a fix without changing the version number. A version that can't be
    parsed counts as affected.

    Args:
        versions: version text by program, e.g. ``{"runc": "1.1.5+ds1"}``.
    """
    return tuple(
        f"{known.program} {versions[known.program]}: {known.name} ({known.what}), unless backported"
        for known in VULNERABILITIES
        if known.program in versions and _is_affected(_parse_version(versions[known.program]), known.fixed_in)
    )


def _is_affected(version: Version, fixed_in: tuple[Version, ...]) -> bool:
    if not version:
        return True
    for fixed in fixed_in:
        if version[:2] == fixed[:2]:
            return version < fixed
    return version < max(fixed_in)


def _parse_version(text: str) -> Version:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else ()
