r"""Finds paths that won't exist when a step uses them: files to read, and folders of files to write.

    cp data/nothere.csv out.csv; echo done     path.missing   the file is neither submitted nor created before
    wc -l sales.csv                            path.missing   the file is data/sales.csv
    cd data; wc -l data/sales.csv              path.missing   that is data/data/sales.csv
    cat data\sales.csv                         path.missing   paths have slashes
    echo x > tmp/reports/a.txt                 path.missing   no command creates the folder
    cat data/x.csv || echo none                nothing        the script deals with a missing file

Bash and its tools print an error for each of these paths, but the step often continues to its end. Only
literal paths are checked, and only if no earlier command could create them; other cases are detected during
the run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from assayd.did_you_mean import find_close_names
from assayd.model.finding import Edit
from assayd_pipeline.shell.parse.reader import ScriptNode
from assayd_pipeline.shell.parse.script import NamedPath, ParsedScript
from assayd_pipeline.shell.parse.words import evaluate_unsplit, get_literal_text, is_known
from assayd_pipeline.shell.rules.paths import SANDBOX, TEMPORARY, PathUse

_FOLDERS = frozenset({"", "data", "tmp", "logs", "scripts"})
_READING_COMMANDS = frozenset(
    {
        "awk", "base64", "cat", "cksum", "cmp", "column", "comm", "cp", "cut", "diff", "egrep", "expand",
        "fgrep", "fmt", "fold", "grep", "head", "join", "jq", "md5sum", "mv", "nl", "od", "paste", "rev",
        "sed", "sha1sum", "sha256sum", "sha512sum", "shuf", "sort", "split", "tac", "tail", "unexpand",
        "uniq", "wc", "<",
    }
)  # fmt: skip
_WRITING_COMMANDS = frozenset({">", ">>", ">|", "&>", "&>>", "cp", "mv", "tee"})
_MAKING_COMMANDS = frozenset({"mkdir", "cp", "mv"})
_WILDCARD_PATTERN = re.compile(r"[*?\[\]{}]")
_BACKSLASHES = re.compile(r"""["']?([\w.-]+(?:\\+[\w.-]+)+)["']?""")
_SCOPE_NODE_KINDS = frozenset(
    {"Subshell", "CmdSubst", "ProcSubst", "FuncDecl", "IfClause", "WhileClause", "ForClause", "CaseClause"}
)
_MAX_HINT_PATHS = 4
_MAX_PATHS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFiles:
    """The files at the start of a step: submitted paths, and prefixes of paths that earlier steps write."""

    submitted: frozenset[str] = frozenset()
    written: tuple[str, ...] = ()

    def contains(self, path: str) -> bool:
        """Return whether a path is a submitted file, or a folder that contains submitted files."""
        folder = f"{path.rstrip('/')}/"
        return path in self.submitted or any(one.startswith(folder) for one in self.submitted)


def list_written_prefixes(script: ParsedScript) -> tuple[str, ...]:
    """Return the literal prefixes of the paths that a script writes. An empty prefix matches any path."""
    found = (
        _normalize_path(_get_literal_prefix(one.value), "")
        for one in script.paths
        if one.use is PathUse.WRITES
    )
    return tuple(dict.fromkeys(found))


def check_files(script: ParsedScript, files: WorkFiles) -> None:
    """Add a finding for each literal path that doesn't exist when the script uses the path.

    Do nothing if the current folder is uncertain, or if the script has too many paths.
    """
    folders = _CurrentFolders(script)
    if not folders.certain or len(script.paths) > _MAX_PATHS:
        return
    before = files
    files = replace(files, written=(*files.written, *list_written_prefixes(script)))
    guarded = _GuardedPaths(script)
    seen: set[tuple[int, str]] = set()
    for one in sorted(script.paths, key=lambda each: each.node.start):
        path = _normalize_path(one.value, folders.at(one.node.start))
        key = (one.node.start, path)
        if key in seen or not is_known(one.value) or guarded.covers(one):
            continue
        seen.add(key)
        if one.use in {PathUse.READS, PathUse.CHANGES} and one.what in _READING_COMMANDS:
            _check_read_path(script, one, path, files, folders)
        elif one.use is PathUse.WRITES and one.what in _WRITING_COMMANDS:
            _check_written_path(script, one, path, before)


def _check_read_path(
    script: ParsedScript, one: NamedPath, path: str, files: WorkFiles, folders: _CurrentFolders
) -> None:
    raw = script.source.written(one.node)
    slashes = _BACKSLASHES.fullmatch(raw)
    if slashes is not None and files.contains(meant := re.sub(r"\\+", "/", slashes[1])):
        _report_path(script, one, f"`{slashes[1]}` has backslashes, but paths use slashes.", meant)
        return
    if files.contains(path) or any(path.startswith(each) for each in files.written):
        return
    below = posixpath.join("data", one.value)
    if _WILDCARD_PATTERN.search(one.value):
        if "/" not in one.value and any(fnmatchcase(each, below) for each in files.submitted):
            _report_path(script, one, f"`{one.value}` matches no file here.", below)
        return
    if (folder := folders.at(one.node.start)) and files.contains(_normalize_path(one.value, "")):
        shorter = posixpath.relpath(_normalize_path(one.value, ""), folder)
        _report_path(script, one, f"After `cd`, `{one.value}` is `{path}`, which doesn't exist.", shorter)
    elif not folder and "/" not in one.value and files.contains(below):
        _report_path(script, one, f"`{one.value}` doesn't exist.", below)
    elif path.startswith("data/"):
        _report_missing(script, one, path, files)


def _report_missing(script: ParsedScript, one: NamedPath, path: str, files: WorkFiles) -> None:
    message = f"`{path}` doesn't exist: it isn't submitted, and nothing before creates it."
    near = find_close_names(path, sorted(files.submitted))
    if near:
        _report_path(script, one, message, near[0])
        return
    given = [each for each in sorted(files.submitted) if each.startswith("data/")]
    shown = f" ({', '.join(given[:_MAX_HINT_PATHS])})" if given else ""
    suggestion = f"Read a submitted file{shown}, or create `{path}` in an earlier step."
    script.error(one.node, "path.missing", message, suggestion)


def _report_path(script: ParsedScript, one: NamedPath, message: str, meant: str) -> None:
    """Add the finding for a path with its replacement and, for a literally written path, an edit."""
    raw = script.source.written(one.node)
    quote = raw[0] if raw[:1] in {"'", '"'} and raw[-1:] == raw[:1] else ""
    plain = raw.strip("\"'") == one.value or "\\" in raw
    edit = script.build_replacement_edit(one.node, f"{quote}{meant}{quote}") if plain else None
    script.error(one.node, "path.missing", message, f"Did you mean `{meant}`?", edit=edit)


def _check_written_path(script: ParsedScript, one: NamedPath, path: str, files: WorkFiles) -> None:
    folder = posixpath.dirname(path)
    if (
        folder in _FOLDERS
        or files.contains(folder)
        or _WILDCARD_PATTERN.search(path)
        or path.startswith(("..", "/"))
    ):
        return
    made = (
        _normalize_path(_get_literal_prefix(each.value), "")
        for each in script.paths
        if each.use is PathUse.WRITES and each.what in _MAKING_COMMANDS and each is not one
    )
    if any(path.startswith(each) for each in (*files.written, *made)):
        return
    line, _ = script.source.place(one.node.start)
    text = script.source.text.split("\n")[line - 1]
    before = script.source.text.split("\n")[line - 2].rstrip() if line > 1 else ""
    indent = text[: len(text) - len(text.lstrip())]
    edit = Edit(start_line=line, end_line=line, replacement=f"{indent}mkdir -p {folder}\n{text}")
    script.error(
        one.node,
        "path.missing",
        f"The folder `{folder}` doesn't exist: nothing before creates it.",
        f"Create it first: `mkdir -p {folder}`.",
        edit=edit if re.fullmatch(r"[\w./-]+", folder) and not before.endswith(("\\", "|", "&")) else None,
    )


def _get_literal_prefix(value: str) -> str:
    """Return the beginning of a value up to its first wildcard or expansion."""
    found = re.match(r"[^\x00-\x03*?\[\]{}]*", value)
    return found[0] if found is not None else ""


def _normalize_path(path: str, folder: str) -> str:
    """Return a path relative to the sandbox directory, or an absolute path outside it."""
    if path == "":
        return ""
    whole = posixpath.normpath(posixpath.join(SANDBOX, folder, path))
    if whole == TEMPORARY or whole.startswith(f"{TEMPORARY}/"):
        return whole.removeprefix("/")
    return whole.removeprefix(SANDBOX).removeprefix("/") if whole.startswith(SANDBOX) else whole


class _CurrentFolders:
    """The current folder at each position of a script.

    `certain` is False if a `cd` call isn't literal or isn't at top level.
    """

    def __init__(self, script: ParsedScript) -> None:
        self.certain = True
        self._changes: list[tuple[int, str]] = []
        scopes = [(node.start, node.end) for node in script.source.nodes if node.kind in _SCOPE_NODE_KINDS]
        calls = (call for call in script.calls if call.name in {"cd", "pushd", "popd"})
        folder = ""
        for call in sorted(calls, key=lambda each: each.word.start):
            target = get_literal_text(call.arguments[0]) if len(call.arguments) == 1 else None
            inner = any(start < call.word.start < end for start, end in scopes)
            if call.name != "cd" or target is None or target.startswith("-") or inner:
                self.certain = False
                return
            folder = _normalize_path(target, folder)
            self._changes.append((call.word.start, folder))

    def at(self, offset: int) -> str:
        """Return the folder at a position, relative to the sandbox directory; empty before the first `cd`."""
        before = [folder for start, folder in self._changes if start < offset]
        return before[-1] if before else ""


class _GuardedPaths:
    """The paths, and the positions in a script, for which the script handles a missing file."""

    def __init__(self, script: ParsedScript) -> None:
        self._places = [
            (each.start, each.end) for node in script.source.nodes for each in _iter_guarded_parts(node)
        ]
        words = [word for call in script.calls if call.name in {"[", "test"} for word in call.arguments]
        words += [
            word
            for node in script.source.nodes
            if node.kind == "UnaryTest" and (word := node.node("X")) is not None
        ]
        self._tested = {value for word in words for value in evaluate_unsplit(word, script.known)}

    def covers(self, one: NamedPath) -> bool:
        """Return whether the script tests a path, or expects a failure at this position."""
        return one.value in self._tested or any(start <= one.node.start < end for start, end in self._places)


def _iter_guarded_parts(node: ScriptNode) -> Iterator[ScriptNode]:
    """Yield the parts of a node whose failure is expected: conditions, and commands before `||`."""
    match node.kind:
        case "BinaryCmd" if node.text("Op") == "||" and (left := node.node("X")) is not None:
            yield left
        case "IfClause" | "WhileClause":
            yield from node.nodes("Cond")
        case "" if node.get_flag("Negated") or _redirects_errors(node.nodes("Redirs")):
            yield node


def _redirects_errors(redirections: Sequence[ScriptNode]) -> bool:
    """Return whether errors are redirected to the null device or to a file."""
    return any(
        each.text("Op") in {"&>", "&>>"} or (number is not None and number.text("Value") == "2")
        for each in redirections
        for number in [each.node("N")]
    )
