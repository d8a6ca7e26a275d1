"""The kind `code` on the command line: its options, and how a file becomes a payload."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, nan

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, KindCommandLine, KindOption, read_single_file

command_line = KindCommandLine(
    from_files="assayd.kinds.code.command_line:from_files",
    case="node",
    options=(
        KindOption(name="timeout_s", help="Seconds for the code node, at most the policy's limit."),
        KindOption(name="requires", help="Modules that the code needs, separated by commas."),
    ),
)


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return the payload for one file, ``--input``, and the options `timeout_s` and `requires`.

    Raises: RequestError ``request.options``, if an option is unknown or invalid.
    """
    code = read_single_file(files, what="a code node")
    if options.sample_paths or options.extra.keys() - {option.name for option in command_line.options}:
        message = "a code node accepts only --input, and --option timeout_s and requires"
        raise RequestError("request.options", message)
    return {"code": code, "inputs": dict(options.input or {}), **_parse_extra_options(options.extra)}


def _parse_extra_options(options: Mapping[str, str]) -> dict[str, object]:
    extra: dict[str, object] = {}
    if "requires" in options:
        extra["requires"] = [name.strip() for name in options["requires"].split(",")]
    if "timeout_s" in options:
        extra["timeout_s"] = _parse_seconds(options["timeout_s"])
    return extra


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        message = f"--option timeout_s: {text[:60]!r} isn't a number of seconds"
        raise RequestError("request.options", message, field="payload.timeout_s")
    return seconds
