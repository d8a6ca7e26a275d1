"""Commands of an ordinary user, who may enter neither the daemon's state directory nor root's home."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.daemons.daemon_process import ROOT

UID = 65534
"""Debian's `nobody`."""

# In a mount namespace of its own: what the interpreter needs may be below a folder that only root may enter,
# as root's home is. There, an empty folder that everybody may enter takes that folder's place, with nothing
# in it but what is needed. Arguments: folders that are closed, --, folders that are needed, --, a command.
SCRIPT = """
set -eu
closed=()
while [ "$1" != -- ]; do closed+=("$1"); shift; done; shift
needed=()
while [ "$1" != -- ]; do needed+=("$1"); shift; done; shift
aside=$(mktemp -d)
trap 'rmdir "$aside"' EXIT
mount -t tmpfs none "$aside"
for number in "${!needed[@]}"; do
    mkdir "$aside/$number"
    mount --bind "${needed[number]}" "$aside/$number"
done
for folder in "${closed[@]}"; do mount -t tmpfs -o mode=755 none "$folder"; done
for number in "${!needed[@]}"; do
    mkdir -p "${needed[number]}"
    mount --bind "$aside/$number" "${needed[number]}"
done
umount --recursive "$aside"
setpriv --reuid="$USER_ID" --regid="$USER_ID" --clear-groups --no-new-privs -- "$@"
"""


def run_as_ordinary_user(
    command: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user with exactly this environment; needs root."""
    needed = [path for path in map(Path, (sys.base_prefix, sys.prefix, ROOT)) if _closed(path)]
    closed = {_closed(path) for path in needed}
    in_namespace = ["unshare", "--mount", "--propagation", "private", "bash", "-c", SCRIPT, "bash"]
    return subprocess.run(
        [*in_namespace, *map(str, closed), "--", *map(str, needed), "--", *map(str, command)],
        cwd=cwd,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "USER_ID": str(UID), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _closed(path: Path) -> Path | None:
    """Return the topmost folder of a path that other users may not enter."""
    way = [*reversed(path.resolve().parents), path.resolve()]
    return next((folder for folder in way if not folder.stat().st_mode & 0o001), None)
