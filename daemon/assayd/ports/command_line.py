"""The optional command-line part of a kind, in addition to its validator.

This part is the module-level object `command_line` in `kinds/<kind>/command_line.py`, or an entry point
with the kind's name in the group `assayd.command_lines` of another distribution. The client imports the
object for every report that it shows; therefore, the object's module imports only this module. Parts that
are slow to import are specified by a reference ``package.module:name`` and imported on first use.

Functions at the end convert the files of a command line to one text, several texts, or payload members.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from assayd.errors import RequestError

STDIN = "stdin"
"""The name of standard input among the files of a command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options of `assay validate KIND FILE…` that apply to files."""

    sample_paths: tuple[str, ...] = ()
    input: Mapping[str, object] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


FromFiles = Callable[[Mapping[str, bytes], FileOptions], Mapping[str, object]]
"""Builds a payload from the files of a command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOption:
    """An option ``--option NAME=VALUE`` that the kind's `from_files` accepts."""

    name: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCommandLine:
    """The command-line description of a kind.

    Attributes:
        case: the noun for one case in a report of this kind, e.g. ``path``.
        cases_have_results: whether a passed case has a value that can be shown.
        language: the language of the kind's source texts, under its name in Pygments (``Lexer.aliases``).
        options: the options that ``assay validate --option`` accepts.
        forms: further forms of an attempt, by name; each is a reference to a `forms.Form`.
        from_files: a reference to a `FromFiles`. By default, one text file is the submission.
        commands: a reference to a `typer.Typer` with the commands of ``assay KIND``; empty for none.
        commands_help: the help of these commands, in one line.
        data_folder: the container's folder for data files that were passed without a folder.
    """

    case: str = "case"
    cases_have_results: bool = True
    language: str = "python"
    options: tuple[KindOption, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    from_files: str = ""
    commands: str = ""
    commands_help: str = ""
    data_folder: str = ""

    def container_path(self, name: str) -> str:
        """Return a data file's path in the container, given the file's name on the command line.

        A name without a folder is placed in `data_folder`, if the kind has one. Other names stay unchanged.
        """
        return f"{self.data_folder}/{name}" if self.data_folder and "/" not in name else name


SUFFIXES = frozenset({".py", ".md", ".txt"})
"""Suffixes of a Python file or a model's raw answer."""


def read_single_file(files: Mapping[str, bytes], *, what: str, also: frozenset[str] = frozenset()) -> str:
    """Return the text of the only file on the command line.

    Args:
        files: the contents of the files by name.
        what: the expected file as described in the error message, e.g. ``an extractor``.
        also: additional suffixes to accept.

    Raises: RequestError ``request.files``, if there isn't exactly one file, or it has another suffix or isn't
    UTF-8.
    """
    if len(files) != 1:
        raise RequestError("request.files", f"{what} must be one file, not {len(files)}", field="files")
    [(name, content)] = files.items()
    if name != STDIN and PurePath(name).suffix not in SUFFIXES | also:
        message = f"{name}: expected one of {', '.join(sorted(SUFFIXES | also))}"
        raise RequestError("request.files", message, field=name)
    return text_of(name, content)


def build_code_payload(
    files: Mapping[str, bytes], options: FileOptions, *, field: str = "code"
) -> Mapping[str, object]:
    """Return a payload with the file's text in one field and with the members that `--input` supplies.

    Raises: RequestError ``request.files``, if there isn't exactly one text file; ``request.options``, if
    there are sample paths or other options.
    """
    if options.sample_paths or options.extra:
        message = "this kind accepts one file and --input, but no --sample-path or --option"
        raise RequestError("request.options", message)
    return {**(options.input or {}), field: read_single_file(files, what="a submission of this kind")}


def text_of(name: str, content: bytes) -> str:
    """Return the content of a file as text. Raises: RequestError ``request.files``, if it isn't UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} isn't UTF-8 text", field=name) from problem


def encode_payload_value(content: bytes) -> object:
    """Return a file's content as a payload value: a string if the content is UTF-8, base64 otherwise."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}
