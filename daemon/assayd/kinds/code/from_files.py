"""What a file on a command line means as a code node."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.errors import RequestError
from assayd.kinds.code.command_line import command_line
from assayd.ports.command_line import FileOptions
from assayd.static.submitted_file import only_text


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Build a payload of one file, ``--input`` with the inputs, ``--option`` timeout_s and requires.

    Raises: RequestError ``request.options``.
    """
    code = only_text(files, what="a code node")
    if options.sample_paths or options.extra.keys() - {option.name for option in command_line.options}:
        message = "a code node takes --input, and --option of timeout_s and requires"
        raise RequestError("request.options", message)
    return {"code": code, "inputs": dict(options.input or {}), **_extra(options.extra)}


def _extra(options: Mapping[str, str]) -> dict[str, object]:
    extra: dict[str, object] = {}
    if "requires" in options:
        extra["requires"] = [name.strip() for name in options["requires"].split(",")]
    if "timeout_s" in options:
        try:
            extra["timeout_s"] = float(options["timeout_s"])
        except ValueError:
            raise RequestError("request.options", "--option timeout_s is not a number") from None
    return extra
