"""The command-line part of a kind: an optional value in addition to its validator.

It is the module-level object `command_line` of `kinds/<kind>/command_line.py`, or what another distribution
offers under the kind's name in the entry-point group `assayd.command_lines`. The client imports it for every
report that it shows, so that module imports nothing but this one; what takes longer is named by a reference,
``package.module:name``, and imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STDIN = "stdin"
"""The name of standard input among the files of a command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options of `assay validate KIND FILE…`."""

    sample_paths: tuple[str, ...] = ()
    input: Mapping[str, object] | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


FromFiles = Callable[[Mapping[str, bytes], FileOptions], Mapping[str, object]]
"""Builds the payload that files on a command line mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One ``--option NAME=VALUE`` that the kind's `from_files` understands."""

    name: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A kind as the command line has it.

    Attributes:
        case: what one case of its reports is called, e.g. ``path``.
        cases_have_results: whether a case that passed has a value to show.
        language: what its single texts are written in, as Pygments calls it (``Lexer.aliases``).
        options: what ``--option`` of ``assay validate`` may name.
        forms: further forms of an attempt, by name; each refers to a `forms.Form`.
        from_files: refers to a `FromFiles`. By default one text file is the submission.
        commands: refers to a `typer.Typer`, whose commands are those of ``assay KIND``; empty for none.
        commands_help: what they are for, in a line.
        data_folder: the folder that a data file goes to which was named without one.
    """

    case: str = "case"
    cases_have_results: bool = True
    language: str = "python"
    options: tuple[Option, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    from_files: str = ""
    commands: str = ""
    commands_help: str = ""
    data_folder: str = ""

    def placed(self, name: str) -> str:
        """Return where a data file is in the container, by its name among the files of a command line.

        A file of a folder that was named has its path in that folder; it keeps it.
        """
        return f"{self.data_folder}/{name}" if self.data_folder and "/" not in name else name
