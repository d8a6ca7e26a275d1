"""The kind `solution` on the command line: its options, and how files and tests become a payload."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, KindCommandLine, KindOption, read_single_file

command_line = KindCommandLine(
    from_files="assayd.kinds.solution.command_line:from_files",
    case="test",
    cases_have_results=False,
    options=(
        KindOption(name="tests", help="A file with the hidden tests, as --tests passes it."),
        KindOption(name="entry", help="The function or class that the tests call, as --entry passes it."),
        KindOption(name="context", help="Python that both sides run first, as text."),
        KindOption(name="reveal", help="What may be shown of the tests: none, names, messages or all."),
        KindOption(
            name="trust_objects", help="Let objects of the solution compare themselves: true or false."
        ),
    ),
)

_FLAGS = {"true": True, "false": False}


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return the payload for one file, the options, and further fields from ``--input``.

    Raises: RequestError ``request.options``, if an option is unknown or invalid, or if the entry point is
    missing.
    """
    if options.sample_paths:
        raise RequestError(
            "request.options", "a solution needs --tests or --cases, and doesn't accept --sample-path"
        )
    payload: dict[str, object] = {**(options.input or {}), "code": read_single_file(files, what="a solution")}
    extra = dict(options.extra)
    for option, field in (
        ("entry", "entry_point"),
        ("tests", "tests"),
        ("context", "context"),
        ("reveal", "reveal"),
    ):
        if option in extra:
            payload[field] = extra.pop(option)
    if "trust_objects" in extra:
        payload["trust_objects"] = _parse_flag(extra.pop("trust_objects"))
    if extra:
        raise RequestError("request.options", f"unknown option for a solution: {', '.join(sorted(extra))}")
    if "entry_point" not in payload:
        message = "a solution needs --entry NAME, the function or class that its tests call"
        raise RequestError("request.options", message, field="payload.entry_point")
    return payload


def _parse_flag(text: str) -> bool:
    if text not in _FLAGS:
        raise RequestError(
            "request.options", f"--option trust_objects: {text[:60]!r} is neither true nor false"
        )
    return _FLAGS[text]
