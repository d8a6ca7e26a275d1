"""The daemon's requests to the runner, parsed from frame headers.

The daemon is trusted, but the stream can be broken: every header that doesn't conform to
docs/guest-protocol.md raises `InvalidRequest`.
"""

from __future__ import annotations

from .substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from .frames import Header

    _T = TypeVar("_T")

_PATH_LIMIT_BYTES = 1024
_MAX_PART_BYTES = 255
_MAX_PATH_PARTS = 16


class InvalidRequest(Exception):
    """An exception raised for an unfulfillable request, which ends the runner's connection to the daemon."""


class GuestLimits(Value):
    """The limits of one attempt, as received in the `begin` frame."""

    max_processes: int
    open_files: int
    output_kept_bytes: int
    output_read_bytes: int
    unit_result_bytes: int
    outputs_files: int
    outputs_bytes: int
    work_bytes: int


class ImportRules(Value):
    """The modules that guest code can import, as received in the `begin` frame."""

    enforce: bool
    allowed: frozenset[str]
    denied: frozenset[str]
    exact: bool


class RelayLimits(Value):
    """The maximum number of simultaneous connections to the proxy, and the maximum total number."""

    streams: int
    connections: int


class BeginFrame(Value):
    """The content of a `begin` frame, valid for all later units. `relay` is None if the network is blocked.

    `programs` lists the unit programs of these units; `preload` lists the modules to import in advance.
    """

    limits: GuestLimits
    imports: ImportRules
    relay: RelayLimits | None
    allow_exec: bool
    folders: tuple[str, ...]
    collect: tuple[str, ...]
    changed_only: bool
    programs: tuple[str, ...]
    preload: tuple[str, ...]

    @property
    def allow_inet(self) -> bool:
        """Return whether guest code can create sockets, which can then connect only to loopback."""
        return self.relay is not None


class UnitRequest(Value):
    """The header of a `unit` frame. The arguments are in the body. `more` is true if another unit follows.

    `call_s` is the timeout, in seconds, of each call of a solution in a separate process.
    """

    index: int
    name: str
    program: str
    deadline_s: float
    fresh_cwd: bool
    more: bool
    call_s: float


def read_attempt(header: Header) -> BeginFrame:
    """Parse the header of a `begin` frame. Raises: InvalidRequest, if a field is invalid."""
    limits = get_object(header, "limits")
    return BeginFrame(
        limits=GuestLimits(**{name: _get_positive_int(limits, name) for name in GuestLimits.__slots__}),
        imports=_read_import_rules(get_object(header, "imports")),
        relay=_read_relay_caps(get_object(header, "network")),
        allow_exec=get(header, "allow_exec", bool),
        folders=tuple(_check_path(folder) for folder in get_strings(header, "folders")),
        collect=get_strings(header, "collect"),
        changed_only=get(header, "changed_only", bool),
        programs=get_strings(header, "programs"),
        preload=get_strings(header, "preload"),
    )


def parse_unit_request(header: Header) -> UnitRequest:
    """Parse the header of a `unit` frame. Raises: InvalidRequest, if a field is invalid."""
    deadline = header.get("deadline_s")
    if not isinstance(deadline, int | float) or isinstance(deadline, bool) or not deadline > 0:
        raise InvalidRequest("deadline_s is not a positive number")
    return UnitRequest(
        index=get(header, "unit", int),
        name=get(header, "name", str),
        program=get(header, "program", str),
        deadline_s=float(deadline),
        fresh_cwd=get(header, "fresh_cwd", bool),
        more=get(header, "more", bool),
        call_s=float(deadline) / 2,
    )


def parse_path_header(header: Header) -> str:
    """Return the path in a `file` header.

    Raises: InvalidRequest, if the path isn't normalized and relative, contains ``..``, or is too long.
    """
    return _check_path(get(header, "path", str))


def get(header: Mapping[str, object], name: str, kind: type[_T]) -> _T:
    """Return a header field. Raises: InvalidRequest, if its type isn't exactly `kind`."""
    value = header.get(name)
    if type(value) is not kind:
        raise InvalidRequest(f"{name} is not a {kind.__name__}")
    return value


def get_object(header: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a header field. Raises: InvalidRequest, if it isn't an object."""
    return get(header, name, dict)


def get_strings(header: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return a header field. Raises: InvalidRequest, if it isn't an array of strings."""
    values: list[object] = get(header, name, list)
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise InvalidRequest(f"{name} is not a list of strings")
    return found


def _read_relay_caps(network: Mapping[str, object]) -> RelayLimits | None:
    if _get_choice(network, "mode", "blocked", "allowlist") == "blocked":
        return None
    return RelayLimits(
        streams=_get_positive_int(network, "streams"), connections=_get_positive_int(network, "connections")
    )


def _check_path(path: str) -> str:
    parts = path.split("/")
    if len(parts) > _MAX_PATH_PARTS or len(path.encode("utf-8", "surrogatepass")) > _PATH_LIMIT_BYTES:
        raise InvalidRequest("a file's path is too long")
    if not path.isprintable() or any(not part or part in {".", ".."} for part in parts):
        raise InvalidRequest(f"not a relative path inside the work directory: {path!a}")
    if any(len(part.encode()) > _MAX_PART_BYTES for part in parts):
        raise InvalidRequest("a file's name is too long")
    return path


def _read_import_rules(imports: Mapping[str, object]) -> ImportRules:
    enforce_forbidden = get(imports, "enforce_forbidden", bool)
    return ImportRules(
        enforce=_get_choice(imports, "mode", "enforce", "observe") == "enforce",
        allowed=frozenset(get_strings(imports, "allowed")),
        denied=frozenset(get_strings(imports, "denied") if enforce_forbidden else ()),
        exact=_get_choice(imports, "submodules", "inherit", "exact") == "exact",
    )


def _get_positive_int(header: Mapping[str, object], name: str) -> int:
    value = get(header, name, int)
    if value < 1:
        raise InvalidRequest(f"{name} is not positive")
    return value


def _get_choice(header: Mapping[str, object], name: str, *choices: str) -> str:
    value = get(header, name, str)
    if value not in choices:
        raise InvalidRequest(f"{name} is none of {', '.join(choices)}")
    return value
