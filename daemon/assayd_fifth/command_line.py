"""The kind `fifth` on the command line: its options and report formats, and how files become a payload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from assayd.errors import RequestError
from assayd.ports.command_line import STDIN, FileOptions, KindCommandLine, KindOption, text_of

command_line = KindCommandLine(
    language="forth",
    from_files="assayd_fifth.command_line:from_files",
    options=(
        KindOption(name="task_type", help="Purpose of the program; adds advice for the next try."),
        KindOption(name="model_source", help="Model that wrote it; adds advice for the next try."),
        KindOption(name="strict_mode", help="true or false: whether a missing stack comment is an error."),
        KindOption(name="libraries", help="Libraries to load first, separated by commas."),
        KindOption(name="execute", help="true or false: whether to run the program in gforth."),
    ),
    forms={"yaml": "assayd_fifth.forms:print_yaml"},
)

SUFFIXES = frozenset({".fs", ".fth", ".forth", ".4th", ".f", ".md", ".txt"})
"""The suffixes of files that contain a program or a model's unchanged answer."""
REQUEST_SUFFIXES = frozenset({".yaml", ".yml"})
"""The suffixes of files that contain a `validation_request`."""
REQUEST = "validation_request"

_KNOWN_OPTIONS = frozenset(option.name for option in command_line.options)
_SWITCH_VALUES = {"true": True, "false": False}


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Build a payload from files, of which the first is the program and the others can be loaded by it.

    If the first file is YAML, it contains the payload as a `validation_request`.

    Raises: RequestError ``request.files``, ``request.options``, if a file or an option isn't valid.
    """
    if not files:
        raise RequestError("request.files", "a Fifth program needs at least one file", field="files")
    if options.input is not None or options.sample_paths:
        raise RequestError("request.options", "a Fifth program doesn't accept --input or --sample-path")
    texts = {name: text_of(name, content) for name, content in files.items()}
    first = next(iter(texts))
    if PurePath(first).suffix.lower() in REQUEST_SUFFIXES:
        payload = _parse_request(first, texts.pop(first))
        return payload | ({"files": texts} if texts else {}) | _read_options(options.extra)
    if first != STDIN and PurePath(first).suffix.lower() not in SUFFIXES:
        message = f"{first}: expected one of {', '.join(sorted(SUFFIXES | REQUEST_SUFFIXES))}"
        raise RequestError("request.files", message, field=first)
    payload = {"code": texts.pop(first)}
    if texts:
        payload["files"] = texts
    return payload | _read_options(options.extra)


def _parse_request(name: str, text: str) -> dict[str, object]:
    """Parse a `validation_request`, a payload in YAML. Raises: RequestError ``request.files``."""
    import yaml

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as problem:
        where = getattr(problem, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise RequestError("request.files", f"{name}{line}: this isn't valid YAML", field=name) from problem
    except (ValueError, LookupError, AttributeError, OverflowError) as problem:
        # PyYAML's own conversion of a date like 2024-13-45, or of `!!bool maybe`
        message = f"{name}: a date or number in this YAML isn't valid; put text in quotes"
        raise RequestError("request.files", message, field=name) from problem
    request = document.get(REQUEST) if isinstance(document, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("code"), str):
        message = f"{name}: expected `{REQUEST}:` with a field `code`"
        raise RequestError("request.files", message, field=name)
    fields = {"code", *_KNOWN_OPTIONS}
    if unknown := sorted(str(key) for key in request if key not in fields):
        message = f"{name}: unknown field {unknown[0][:64]!r}; known fields: {', '.join(sorted(fields))}"
        raise RequestError("request.files", message, field=name)
    return dict(request)


def _read_options(options: Mapping[str, str]) -> dict[str, object]:
    """Parse the command-line options. Raises: RequestError ``request.options``."""
    if unknown := set(options) - _KNOWN_OPTIONS:
        message = f"unknown option {min(unknown)!r}; use one of {', '.join(sorted(_KNOWN_OPTIONS))}"
        raise RequestError("request.options", message, field=min(unknown))
    read: dict[str, object] = dict(options)
    for name in ("strict_mode", "execute"):
        if name in options:
            if options[name] not in _SWITCH_VALUES:
                raise RequestError("request.options", f"{name} must be true or false", field=name)
            read[name] = _SWITCH_VALUES[options[name]]
    if "libraries" in options:
        read["libraries"] = [each for each in options["libraries"].split(",") if each]
    return read
