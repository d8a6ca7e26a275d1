"""Defines the format of profile files and ``categories.toml``, and finds these files in folders.

This module defines the keys and their allowed values. `resolve` combines the profiles that extend one
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from assayd import tomlfile
from assayd.model.hosts import normalize_entry
from assayd.model.policy import MAX_MUTANTS, QUALITY_RULES, SQL_RULES, is_unambiguous_path
from assayd.tomlfile import FileError, Problem, TomlFile

CODE = "policy.file"
CATEGORIES_FILE = "categories.toml"
_NAME_REGEX = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_LOCAL_HOST_LABELS = frozenset({"localhost", "localdomain", "ip6-localhost", "ip6-loopback"})
"""Top-level labels that mean the machine itself (RFC 6761), or usually do in /etc/hosts."""
_METHOD_PATTERN = re.compile(r"[A-Z]{1,20}")
_PATH_PATTERN = re.compile(r"/[!-~]*")
_COMMAND_PATTERN = re.compile(r"[A-Za-z0-9_:.\[][A-Za-z0-9_.+-]*")
_OPTION_PATTERN = re.compile(r"-[A-Za-z0-9]|--?[a-z0-9][a-z0-9-]*")


def _check_dotted_name(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} isn't a dotted name")
    return name


def _check_attribute(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name!r} isn't an attribute name")
    return name


def _check_http_method(name: str) -> str:
    if not _METHOD_PATTERN.fullmatch(name) or name == "CONNECT":
        raise ValueError(f"{name!r} isn't an uppercase HTTP method")
    return name


def _check_url_path(path: str) -> str:
    if not _PATH_PATTERN.fullmatch(path) or not is_unambiguous_path(path) or "?" in path or "#" in path:
        plain = "must begin with / and must not have //, .., ?, #, or an ambiguous escape such as %2f"
        raise ValueError(f"{path!r} isn't a plain path: it {plain}")
    return path


def _check_command(name: str) -> str:
    if not _COMMAND_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} isn't a command name")
    return name


def _check_option(text: str) -> str:
    if not _OPTION_PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} isn't an option; write -x, --name or, for find, -name")
    return text


def _check_variable(text: str) -> str:
    if not text.removesuffix("*").isidentifier():
        raise ValueError(f"{text!r} isn't a variable name (a final * is allowed)")
    return text


def _check_image(name: str) -> str:
    if not _NAME_REGEX.fullmatch(name):
        raise ValueError(f"{name!r} isn't an image name: use a-z, 0-9, _ and -, at most 64 characters")
    return name


def _check_sql_rule(name: str) -> str:
    if name not in SQL_RULES:
        raise ValueError(f"profiles can't set the rule {name!r}; use one of {', '.join(sorted(SQL_RULES))}")
    return name


def _check_quality_rule(name: str) -> str:
    if name not in QUALITY_RULES:
        raise ValueError(
            f"profiles can't set the quality rule {name!r}; use one of {', '.join(sorted(QUALITY_RULES))}"
        )
    return name


def _check_host(text: str) -> str:
    entry = normalize_entry(text)
    if entry.lstrip(".").split(".")[-1] in _LOCAL_HOST_LABELS:
        raise ValueError(
            f"{text!r} names this machine, but the relay connects only to public addresses; "
            "name a public host"
        )
    return entry


def _is_accepted(check: Callable[[str], str], text: str) -> bool:
    try:
        check(text)
    except ValueError:
        return False
    return True


def is_dotted_name(text: str) -> bool:
    """Return whether a string is a valid module or attribute name for a profile."""
    return _is_accepted(_check_dotted_name, text)


def is_command(text: str) -> bool:
    """Return whether a string is a valid command name for a profile."""
    return _is_accepted(_check_command, text)


def is_host(text: str) -> bool:
    """Return whether a string is a valid host for a profile."""
    return _is_accepted(_check_host, text)


Dotted = Annotated[str, AfterValidator(_check_dotted_name)]
Attribute = Annotated[str, AfterValidator(_check_attribute)]
Host = Annotated[str, AfterValidator(_check_host)]
Method = Annotated[str, AfterValidator(_check_http_method)]
UrlPath = Annotated[str, AfterValidator(_check_url_path)]
Command = Annotated[str, AfterValidator(_check_command)]
Option = Annotated[str, AfterValidator(_check_option)]
SqlRule = Annotated[str, AfterValidator(_check_sql_rule)]
QualityRule = Annotated[str, AfterValidator(_check_quality_rule)]
ImageName = Annotated[str, AfterValidator(_check_image)]
Variable = Annotated[str, AfterValidator(_check_variable)]
Port = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Interval = Annotated[list[Number], Field(min_length=2, max_length=2)]


class _ProfileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class HttpTable(_ProfileModel):
    """The table ``[network.http."host"]``: the requests that code can send to a host over plain HTTP."""

    methods: Annotated[list[Method], Field(min_length=1)] | None = None
    paths: Annotated[list[UrlPath], Field(min_length=1)] | None = None


class NetworkTable(_ProfileModel):
    """The table ``[network]``. A host with a table in ``[network.http]`` is also listed in `hosts`."""

    mode: Literal["blocked", "allowlist"] | None = None
    hosts: list[Host] | None = None
    ports: Annotated[list[Port], Field(min_length=1)] | None = None
    connect_timeout_s: Annotated[Number, Field(gt=0, le=60)] | None = None
    http: dict[Host, HttpTable] = Field(default_factory=dict)


class ImportsTable(_ProfileModel):
    """The table ``[imports]``. ``[imports.names]`` maps a module to the attributes that code can use."""

    mode: Literal["enforce", "observe"] | None = None
    only: Annotated[list[Dotted], Field(min_length=1)] | None = None
    categories: list[str] | None = None
    allowed: list[Dotted] | None = None
    denied: list[Dotted] | None = None
    submodules: Literal["inherit", "exact"] | None = None
    enforce_forbidden: bool | None = None
    names: dict[Dotted, list[Attribute]] = Field(default_factory=dict)


class AdapterTable(_ProfileModel):
    """The table ``[adapter]``: the requirements for an adapter module."""

    decorators: Annotated[list[Attribute], Field(min_length=1)] | None = None
    methods: list[Attribute] | None = None
    base_classes: list[Attribute] | None = None
    modules: Annotated[list[Dotted], Field(min_length=1)] | None = None
    forbidden: list[Dotted] | None = None


class CommandsTable(_ProfileModel):
    """The table ``[commands]``. ``[commands.options]`` maps a command to its rejected options."""

    allowed: list[Command] | None = None
    blocked: list[Command] | None = None
    builtins: list[Command] | None = None
    protected: list[Variable] | None = None
    ignored_errors: Literal["off", "warning", "uncaught", "error"] | None = None
    options: dict[Command, list[Option]] = Field(default_factory=dict)


class SqlTable(_ProfileModel):
    """The table ``[sql]``. ``[sql.rules]`` sets the severity of rules: error, warning or off."""

    max_bytes: Annotated[int, Field(ge=1, le=2**20)] | None = None
    max_statements: Annotated[int, Field(ge=1)] | None = None
    max_rows: Annotated[int, Field(ge=1)] | None = None
    max_cell_chars: Annotated[int, Field(ge=10)] | None = None
    rules: dict[SqlRule, Literal["off", "warning", "error"]] = Field(default_factory=dict)


class QualityTable(_ProfileModel):
    """The table ``[quality]``. ``[quality.rules]`` sets the severity of rules: error, warning or off."""

    severity: Literal["off", "warning", "error"] | None = None
    rules: dict[QualityRule, Literal["off", "warning", "error"]] = Field(default_factory=dict)
    generalization: bool | None = None
    mutants: Annotated[int, Field(ge=0, le=MAX_MUTANTS)] | None = None


class ResourcesTable(_ProfileModel):
    """The table ``[resources]``: the limits of an attempt."""

    timeout_s: Number | None = None
    unit_timeout_s: Number | None = None
    memory_mb: int | None = None
    max_processes: int | None = None


class BoundsTable(_ProfileModel):
    """The table ``[bounds]``: the minimum and maximum of each limit, as a pair."""

    timeout_s: Interval | None = None
    unit_timeout_s: Interval | None = None
    memory_mb: Interval | None = None
    max_processes: Interval | None = None


class ProfileTable(_ProfileModel):
    """A complete profile file. If a key is missing, the value of the extended profile applies."""

    description: str = ""
    extends: str | list[str] = Field(default_factory=list)
    enforcement: Literal["enforce", "report"] | None = None
    approve_reported: bool | None = None
    image: ImageName | None = None
    exec: bool | None = None
    network: NetworkTable = NetworkTable()
    imports: ImportsTable = ImportsTable()
    adapter: AdapterTable = AdapterTable()
    commands: CommandsTable = CommandsTable()
    sql: SqlTable = SqlTable()
    quality: QualityTable = QualityTable()
    resources: ResourcesTable = ResourcesTable()
    bounds: BoundsTable = BoundsTable()


class CategoriesTable(_ProfileModel):
    """The file ``categories.toml``, in which each import category is a list of modules."""

    categories: dict[str, list[Dotted]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile as written in its file, without inherited values."""

    name: str
    file: TomlFile
    table: ProfileTable

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the profiles that this profile extends."""
        extends = self.table.extends
        return (extends,) if isinstance(extends, str) else tuple(extends)


def find_profile_paths(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the profile files by name. A file replaces a file of the same name in an earlier folder.

    Raises:
        FileError: if a folder can't be listed.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            paths = sorted(folder.iterdir())
        except OSError as problem:
            message = f"can't be listed: {problem.strerror or problem}"
            raise FileError(CODE, [Problem(path=folder, line=None, key="", message=message)]) from problem
        found |= {
            path.stem: path for path in paths if path.suffix == ".toml" and path.name != CATEGORIES_FILE
        }
    return found


def read_profile(path: Path, content: bytes | None = None) -> Profile:
    """Parse one profile, whose name is the file name without the suffix.

    Args:
        path: the file.
        content: its content, if known; in that case, the file isn't read.

    Raises:
        FileError: with all problems of the file.
    """
    if not _NAME_REGEX.fullmatch(path.stem):
        message = "the file name is the profile name: use a-z, 0-9, _ and -, at most 64 characters"
        raise FileError(CODE, [Problem(path=path, line=None, key="", message=message)])
    file = tomlfile.read_file(path, CODE) if content is None else tomlfile.parse_content(path, content, CODE)
    return Profile(name=path.stem, file=file, table=tomlfile.validate_file(file, ProfileTable, CODE))


def read_categories(folders: Sequence[Path]) -> dict[str, frozenset[str]]:
    """Read the import categories of all folders.

    A category replaces a category of the same name in an earlier folder.

    Raises:
        FileError: with all problems of the first faulty file.
    """
    found: dict[str, frozenset[str]] = {}
    for path in (folder / CATEGORIES_FILE for folder in folders):
        if path.exists():
            table = tomlfile.validate_file(tomlfile.read_file(path, CODE), CategoriesTable, CODE)
            found |= {name: frozenset(modules) for name, modules in table.categories.items()}
    return found
