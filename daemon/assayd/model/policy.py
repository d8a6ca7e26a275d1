"""ExecutionPolicy: what submitted code may do, and how much of the machine it may use.

Holds effective values only: files, `extends`, merging and clamping are done in `policies`.
Source: docs/operating/profile-keys.md.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from assayd.model.document import DOCUMENT, about
from assayd.model.hosts import covers

_DEVIOUS = re.compile(
    r"//|\\|/\.+(?:[/;%]|$)|%(?:[01][0-9a-f]|2[ef5]|3b|5c|7f)|%(?![0-9a-f]{2})|[^!-~]", re.IGNORECASE
)
"""What servers fold in their own ways, so that the path that was compared is not the one that is served.

Dots before a parameter, an escape or the end of a segment; escapes of control characters and of ``./%;\\``;
escapes that are none.
"""


class NetworkMode(StrEnum):
    """What the code may reach; the container itself never has a network device."""

    BLOCKED = "blocked"
    """Nothing."""
    ALLOWLIST = "allowlist"
    """The listed hosts, through a relay. An empty list denies all."""


class Enforcement(StrEnum):
    """What happens to code that breaks a rule which the profile states."""

    ENFORCE = "enforce"
    """It fails."""
    REPORT = "report"
    """A warning says that it would fail; the container's limits hold as always."""


class ImportMode(StrEnum):
    """What happens at an import that the policy does not allow."""

    ENFORCE = "enforce"
    """It fails, statically and at run time."""
    OBSERVE = "observe"
    """It is recorded only."""


class SubmoduleRule(StrEnum):
    """Whether allowing `a` allows `a.b`."""

    INHERIT = "inherit"
    """Yes: an allowed package brings its submodules."""
    EXACT = "exact"
    """No: each dotted name is listed by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRule:
    """What may be asked of a host over plain HTTP; an empty set means all.

    A path that ends in a slash stands for all below it, any other for itself.
    """

    methods: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    def allows_method(self, method: str) -> bool:
        """Return whether a method may be used."""
        return not self.methods or method in self.methods

    def allows_path(self, path: str) -> bool:
        """Return whether a path, without its query, may be asked for."""
        if not self.paths:
            return True
        below = any(entry.endswith("/") and path.startswith(entry) for entry in self.paths)
        return is_plain(path) and (path in self.paths or below)


def is_plain(path: str) -> bool:
    """Return whether all servers read a path alike: nothing to resolve, to decode twice or to fold."""
    if _DEVIOUS.search(path):
        return False
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:  # among these are dots and slashes in more bytes than they need
        return False
    folded = unicodedata.normalize("NFKC", decoded)
    return all(folded.count(mark) == decoded.count(mark) for mark in "./\\%;")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """Which hosts may be reached, and how.

    An entry of `hosts` is a folded name, or a leading dot and a name for all names below it. An entry with a
    rule in `http` is reached over plain HTTP only, since nobody sees methods and paths inside TLS. What any
    entry allows is allowed. `connect_timeout_s` bounds one connection attempt, from the name's look-up on.
    """

    mode: NetworkMode = NetworkMode.BLOCKED
    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset({443})
    connect_timeout_s: float = 5.0
    http: Mapping[str, HttpRule] = field(default_factory=dict)

    def rules(self, name: str) -> Iterator[HttpRule | None]:
        """Return, for each entry that covers a folded name or entry, its rule; None for one without."""
        return (self.http.get(entry) for entry in sorted(self.hosts) if covers(entry, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPolicy:
    """Which modules guest code may import, and which names it may use of them.

    `allowed` is the flat result of categories, custom imports and the keys of `names`. `names` restricts
    a module to the listed attributes; a module that is not a key there is not restricted. `denied` holds
    modules, attributes (``os.system``) and builtins (``eval``); it wins over all that is allowed, as long
    as `enforce_forbidden` is on.
    """

    mode: ImportMode = ImportMode.ENFORCE
    categories: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    submodules: SubmoduleRule = SubmoduleRule.INHERIT
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    enforce_forbidden: bool = True

    def allows(self, module: str) -> bool:
        """Return whether an import of the dotted name `module` is allowed, whatever the mode."""
        if self.enforce_forbidden and any(_covers(d, module) for d in self.denied):
            return False
        if self.submodules is SubmoduleRule.EXACT:
            return module in self.allowed
        return any(_covers(a, module) for a in self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContract:
    """What an adapter module has to be; asked by the kind `module` alone. Source: docs/kinds/module.md.

    A class that one of `decorators` registers has all `methods` itself. `forbidden` are names that no file of
    the module may use: modules, their attributes (``os.write``) and builtins. `modules` are the names under
    which the container offers the decorators and `base_classes`.
    """

    decorators: tuple[str, ...] = ("register_adapter",)
    methods: tuple[str, ...] = ("fetch_raw", "transform", "get_schema")
    base_classes: tuple[str, ...] = ("Adapter",)
    modules: tuple[str, ...] = ("assayd_adapter",)
    forbidden: frozenset[str] = frozenset()


class IgnoredErrors(StrEnum):
    """What a profile makes of an error that a command printed while its step went on and passed."""

    OFF = "off"
    """Nothing is reported."""
    WARNING = "warning"
    """It is a warning."""
    UNCAUGHT = "uncaught"
    """It is an error if ``set -e`` with ``pipefail`` would have ended the step, otherwise a warning."""
    ERROR = "error"
    """It is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPolicy:
    """What a shell script may run. Nothing is allowed that is not listed; `blocked` wins over all lists.

    `options` names, per command, long options (``--output``) and short ones (``-o``) that are refused.
    `protected` names variables that no script may set; a ``*`` at the end stands for any rest.
    `ignored_errors` is None if no profile sets it, which means a warning.
    """

    allowed: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    builtins: frozenset[str] = frozenset()
    options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    ignored_errors: IgnoredErrors | None = None

    def protects(self, variable: str) -> bool:
        """Return whether a script is forbidden to set a variable."""
        return any(
            variable.startswith(name[:-1]) if name.endswith("*") else variable == name
            for name in self.protected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePolicy:
    """How much an attempt may use. Memory is what the code gets, on top of the image's baseline."""

    timeout_s: float = 30.0
    unit_timeout_s: float = 30.0
    memory_bytes: int = 256 * 2**20
    max_processes: int = 4


class RuleLevel(StrEnum):
    """What a profile makes of a rule."""

    OFF = "off"
    """Nothing is said."""
    WARNING = "warning"
    """It is said, and does no harm."""
    ERROR = "error"
    """It is refused."""


SQL_RULES = frozenset(
    {
        "sql.alter", "sql.delete_without_where", "sql.drop", "sql.empty", "sql.if_not_exists",
        "sql.not_understood", "sql.pragma", "sql.replace", "sql.statement", "sql.trigger",
        "sql.update_without_where", "sql.virtual_table", "sql.where_constant",
    }
)  # fmt: skip
"""The SQL rules that a profile may set; none of those on what reaches outside the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPolicy:
    """Limits of a step's SQL, and of the selected rows to keep.

    Rows beyond `max_rows` are counted and not kept; a cell is cut at `max_cell_chars`. `rules` has what a
    profile makes of the rules that it may set, sorted by name; another rule is what it is.
    """

    max_bytes: int = 256 * 2**10
    max_statements: int = 1000
    max_rows: int = 1000
    max_cell_chars: int = 500
    rules: tuple[tuple[str, RuleLevel], ...] = ()

    def level(self, rule: str) -> RuleLevel | None:
        """Return what the profile makes of a rule; None where it says nothing."""
        return next((level for name, level in self.rules if name == rule), None)

    def admits(self, rule: str) -> bool:
        """Return whether what a rule speaks of may be done."""
        return self.level(rule) in {RuleLevel.WARNING, RuleLevel.OFF}


QUALITY_RULES = frozenset(
    {
        "quality.all_none", "quality.constant", "quality.echo", "quality.empty_output", "quality.hard_coded",
        "quality.key", "quality.mutants", "quality.no_assertion", "quality.no_rows", "quality.not_from_path",
        "quality.not_json",
        "quality.some_empty", "quality.swallowed", "quality.tautology", "quality.types_differ",
        "quality.unread_input", "quality.untested_method",
        "quality.unused_result", "quality.varying",
    }
)  # fmt: skip
"""The rules on passes that are worth nothing, which a profile may set. Source: docs/quality.md."""


MOST_MUTANTS = 50
"""Changes to an adapter that a profile may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPolicy:
    """The severity of passes without value, and the effort to find them.

    `severity` is for all quality rules, `rules` for single ones. With `generalization`, extractors also get
    paths that are like the samples. `mutants` is how many changes to an adapter are tried against its tests.
    """

    severity: RuleLevel = RuleLevel.WARNING
    rules: tuple[tuple[str, RuleLevel], ...] = ()
    generalization: bool = True
    mutants: int = 0

    def level(self, rule: str) -> RuleLevel:
        """Return what the profile makes of a quality rule."""
        return next((level for name, level in self.rules if name == rule), self.severity)

    @property
    def is_off(self) -> bool:
        """Return whether no quality rule says anything."""
        levels = {self.severity, *(level for _, level in self.rules)}
        return levels == {RuleLevel.OFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The least and the most that a limit may be, both included."""

    least: float
    most: float

    def clamp(self, value: float) -> float:
        """Return the value, or the end of the range that it is beyond."""
        return min(max(value, self.least), self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of each limit of a profile; values beyond are clamped."""

    timeout_s: Range = Range(least=1, most=60)
    unit_timeout_s: Range = Range(least=1, most=60)
    memory_mb: Range = Range(least=64, most=512)
    max_processes: Range = Range(least=1, most=8)


DEFAULT_BOUNDS = Bounds()
"""What a profile is held to when neither it nor the operator says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """A value that a profile asked for and did not get."""

    __pydantic_config__ = DOCUMENT

    field: str = dataclasses.field(metadata=about("The profile's field."))
    requested: float = dataclasses.field(metadata=about("Requested value."))
    effective: float = dataclasses.field(metadata=about("Effective value."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """A profile with its effective values.

    `image` is the image that runs happen in, without prefix (``science``); None for that of the kind. `exec`
    lets code run what it has written.
    `digest` is the SHA-256 of the canonical effective values. Results under `enforcement = "report"` can be
    approved only with `approve_reported`.
    """

    name: str
    description: str = ""
    enforcement: Enforcement = Enforcement.ENFORCE
    approve_reported: bool = False
    image: str | None = None
    exec: bool = False
    network: NetworkPolicy = NetworkPolicy()
    imports: ImportPolicy = ImportPolicy()
    adapter: AdapterContract = AdapterContract()
    commands: CommandPolicy = CommandPolicy()
    resources: ResourcePolicy = ResourcePolicy()
    sql: SqlPolicy = SqlPolicy()
    quality: QualityPolicy = QualityPolicy()
    clamped: tuple[Clamp, ...] = ()
    digest: str = ""

    @property
    def reports_only(self) -> bool:
        """Return whether broken rules of the profile are only reported."""
        return self.enforcement is Enforcement.REPORT

    @property
    def approvable(self) -> bool:
        """Return whether a validated result may be approved or committed."""
        return self.approve_reported or not self.reports_only

    def at_run_time(self) -> ExecutionPolicy:
        """Return what a run is planned by: under report-only, imports are observed and SQL rules warn."""
        if not self.reports_only:
            return self
        rules = tuple((rule, RuleLevel.WARNING) for rule in sorted(SQL_RULES))
        return replace(
            self,
            imports=replace(self.imports, mode=ImportMode.OBSERVE),
            sql=replace(self.sql, rules=rules),
        )


def _covers(allowed: str, module: str) -> bool:
    return module == allowed or module.startswith(allowed + ".")
