"""Determines from a path's text whether the path stays in the sandbox directory; checks redirections.

data/sales.csv          inside
/sandbox/tmp/x          inside
/tmp/x                  inside: a link to the sandbox's tmp/
/dev/null               a device that may be used
/etc/passwd             path.outside
../x                    path.outside
~/x                     inside: the sandbox directory is the home of a step
~root/x                 path.outside
"$unknown"              path.undecided   (a warning, if something is written)
/dev/tcp/host/80        redirect.network
ls > /etc/x             path.outside
ls >& "$fd"             path.undecided   (a warning)
"""

from __future__ import annotations

import re
from enum import StrEnum

from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.script import NamedPath, ParsedScript
from assayd_pipeline.shell.parse.words import ANY, HOME, evaluate_arguments, evaluate_unsplit, to_visible

TEMPORARY = "/tmp"  # noqa: S108 - a link of the image to the sandbox's tmp/
SANDBOX = "/sandbox"
"""The folder on which the engine mounts the only writable file system, and where steps start."""

_DESCRIPTOR_PATTERN = re.compile(r"[0-9\x01]*-?")
_DEVICE_PATTERN = re.compile(r"/dev/(null|stdin|stdout|stderr|fd/[0-9\x01]+)")
_NETWORK_PATTERN = re.compile(r"/+dev/+(tcp|udp)(/.*)?", re.DOTALL)


class PathLocation(StrEnum):
    """The kind of location to which a path leads."""

    INSIDE = "inside"
    """The sandbox directory."""
    DEVICE = "device"
    """The null device or an open descriptor."""
    OUTSIDE = "outside"
    """Another location in the container."""
    NETWORK = "network"
    """A connection that bash opens."""
    UNDECIDED = "undecided"
    """A target that is known only at run time."""


class PathUse(StrEnum):
    """The kind of access to a path, as a verb for messages."""

    READS = "reads"
    """The path is read."""
    WRITES = "writes to"
    """The path is written."""
    CHANGES = "changes"
    """The path is read and written."""
    ENTERS = "enters"
    """The path becomes the current directory."""


def locate_path(path: str) -> PathLocation:
    """Return the location to which a path leads. The path is a value from `words`."""
    if path.startswith(HOME):
        rest = path[len(HOME) :]
        return (
            PathLocation.INSIDE
            if rest[:1] in {"", "/"} and not count_ascended_folders(rest)
            else PathLocation.OUTSIDE
        )
    if path.startswith(ANY):
        return PathLocation.UNDECIDED
    if _DEVICE_PATTERN.fullmatch(path):
        return PathLocation.DEVICE
    if _NETWORK_PATTERN.fullmatch(path):
        return PathLocation.NETWORK
    if path.startswith("/"):
        root = next((root for root in (SANDBOX, TEMPORARY) if f"{path}/".startswith(f"{root}/")), None)
        return (
            PathLocation.INSIDE
            if root is not None and not count_ascended_folders(path[len(root) :])
            else PathLocation.OUTSIDE
        )
    return PathLocation.INSIDE if not count_ascended_folders(path) else PathLocation.OUTSIDE


def count_ascended_folders(path: str) -> int:
    """Return the maximum number of folders that a path ascends from its start."""
    depth = lowest = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
            lowest = min(lowest, depth)
        elif part not in {"", "."}:
            depth += 1
    return -lowest


def _enters_folders(script: ParsedScript) -> bool:
    """Return whether a script enters subfolders, which changes the meaning of ``..``."""
    entered = (call.arguments[0] for call in script.calls if call.name in {"cd", "pushd"} and call.arguments)
    return any(
        locate_path(value) is not PathLocation.OUTSIDE
        for word in entered
        for value in evaluate_unsplit(word, script.known)
    )


def check_path(script: ParsedScript, node: ScriptNode, path: str, use: PathUse, what: str) -> None:
    """Record a path, and add a finding if the path can leave the sandbox directory.

    Args:
        script: the script.
        node: the location of the finding.
        path: the value of the path.
        use: the use of the path.
        what: the command or operator, e.g. ``cat`` or ``>``.
    """
    script.paths.append(NamedPath(node=node, value=path, use=use, what=what))
    place = locate_path(path)
    if place is PathLocation.NETWORK:
        message = f"{what} uses {to_visible(path)}, a network connection."
        script.error(
            node, "redirect.network", message, "The network is blocked. Read files in data/ instead."
        )
    elif place is PathLocation.OUTSIDE and not path.startswith(("/", HOME)) and _enters_folders(script):
        message = f"The path of {what} depends on an earlier cd: {to_visible(path)}."
        suggestion = "Stay in the sandbox directory and write data/…, or use a subshell: ( cd data && … )."
        script.add_warning(node, "path.undecided", message, suggestion)
    elif place is PathLocation.OUTSIDE:
        message = f"{what} {use} {to_visible(path)}, which is outside the sandbox directory."
        script.error(node, "path.outside", message, _INSIDE_HINT)
    elif place is PathLocation.UNDECIDED and use is not PathUse.READS:
        message = f"The path of {what} is unknown before the run: {to_visible(path)}."
        script.add_warning(node, "path.undecided", message, _advise_on_undecided(script, node))


_INSIDE_HINT = "Use paths below the sandbox directory, without a leading slash: data/, tmp/, logs/."


def _advise_on_undecided(script: ParsedScript, node: ScriptNode) -> str:
    """Return the fix of a path that begins with a variable, which the script may have to assign first."""
    found = _FOLDER.match(script.source.written(node))
    if found is None or script.known.is_set(found[1]):
        return 'Begin the path with a literal folder, e.g. "tmp/$name".'
    return f"`{found[1]}` has no value here. Assign it before this line: `{found[1]}=tmp`."


_FOLDER = re.compile(r"[\"']?\$\{?([A-Za-z_]\w{0,60})\}?/")


def check_redirection(script: ParsedScript, node: ScriptNode) -> None:
    """Check the target of a redirection. Here-documents and here-strings have no target."""
    operator, word = node.text("Op"), node.node("Word")
    if word is None or operator in {"<<", "<<-", "<<<"}:
        return
    use = PathUse.READS if operator in {"<", "<&"} else PathUse.WRITES
    for target in evaluate_arguments(word, script.known):
        for value in target.values:
            if operator not in {">&", "<&"} or not _DESCRIPTOR_PATTERN.fullmatch(value):
                check_path(script, word, value, use, operator)
