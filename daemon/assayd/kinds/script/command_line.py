"""The kind `script` on the command line: its options, and how files become a payload."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath

from assayd.errors import RequestError
from assayd.ports.command_line import (
    SUFFIXES,
    FileOptions,
    KindCommandLine,
    KindOption,
    encode_payload_value,
    read_single_file,
)

command_line = KindCommandLine(
    from_files="assayd.kinds.script.command_line:from_files",
    options=(
        KindOption(
            name="argv",
            help="Program of the image with its arguments, run in the folder of the submitted files.",
        ),
        KindOption(name="stdin", help="Text for its standard input."),
        KindOption(name="collect", help="Files that must exist at the end, separated by commas."),
    ),
)

RUNNER_BY_SUFFIX = {".bash": ("bash", "shell"), ".js": ("node", "javascript"), ".sh": ("bash", "shell")}
"""The program and the shipped profile for a file, by its suffix."""
_OPTIONS = frozenset(option.name for option in command_line.options)


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return the payload for one Python file, or for files with ``--option argv='program argument…'``.

    Raises: RequestError ``request.options``, if an option is unknown or invalid; ``request.files``, if a file
    needs ``argv``.
    """
    if options.input is not None or options.sample_paths or options.extra.keys() - _OPTIONS:
        known = ", ".join(sorted(_OPTIONS))
        raise RequestError("request.options", f"a script accepts only files, and --option {known}")
    payload = _build_program(files, options.extra.get("argv"))
    if "stdin" in options.extra:
        payload["stdin"] = options.extra["stdin"]
    if "collect" in options.extra:
        payload["collect"] = options.extra["collect"].split(",")
    return payload


def _build_program(files: Mapping[str, bytes], argv: str | None) -> dict[str, object]:
    """Return the payload fields of a program, given as a command line or as code."""
    if argv is not None:
        try:
            return {
                "argv": shlex.split(argv),
                "files": {name: encode_payload_value(c) for name, c in files.items()},
            }
        except ValueError as problem:
            raise RequestError("request.options", f"--option argv: {problem}", field="payload.argv") from None
    for name in files:
        if (suffix := PurePath(name).suffix) not in {*SUFFIXES, ""}:
            program, profile = RUNNER_BY_SUFFIX.get(suffix, ("PROGRAM", "NAME"))
            options = f"--policy {profile} --option argv='{program} {name}'"
            message = f"{name} isn't Python; name the program that runs it: {options}"
            raise RequestError("request.files", message, field=name)
    return {"code": read_single_file(files, what="a script without --option argv")}
