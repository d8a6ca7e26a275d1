"""Defines `ExecutionPolicy`: the permissions and resource limits of submitted code.

A policy contains effective values only. The package `policies` reads files, resolves `extends`, and merges
and clamps values. Source: docs/operating/profile-keys.md.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from assayd.model.document import DOCUMENT, document_field
from assayd.model.hosts import entry_covers

_AMBIGUOUS_PATH_PATTERN = re.compile(
    r"//|\\|/\.+(?:[/;%]|$)|%(?:[01][0-9a-f]|2[ef5]|3b|5c|7f)|%(?![0-9a-f]{2})|[^!-~]", re.IGNORECASE
)
r"""Parts of a path that servers normalize differently, so the checked path can differ from the served path.

These are: dots before a parameter, an escape or the end of a segment; escapes of control characters and of
``./%;\``; malformed escapes.
"""


class NetworkMode(StrEnum):
    """The network access of submitted code. The container itself never has a network device."""

    BLOCKED = "blocked"
    """No host can be reached."""
    ALLOWLIST = "allowlist"
    """The listed hosts can be reached through the relay. An empty list denies all."""


class Enforcement(StrEnum):
    """The handling of code that violates a rule of the profile."""

    ENFORCE = "enforce"
    """The code fails."""
    REPORT = "report"
    """A warning says that the code would fail. The limits of the container still apply."""


REPORT_ONLY = (
    'its profile only reported broken rules; submit it under a profile with `enforcement` = "enforce", '
    "or set `approve_reported` = true in the profile"
)
"""The reason why a report-only result can't be approved or committed."""


class ImportMode(StrEnum):
    """The handling of an import that the policy doesn't allow."""

    ENFORCE = "enforce"
    """The import fails, statically and at run time."""
    OBSERVE = "observe"
    """The import is only recorded."""


class SubmoduleRule(StrEnum):
    """The rule that decides whether an allowed module `a` implies its submodule `a.b`."""

    INHERIT = "inherit"
    """Yes: a package includes its submodules."""
    EXACT = "exact"
    """No: each dotted name must be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRule:
    """The requests that are allowed to a host over plain HTTP. An empty set allows everything.

    A path with a final slash allows all paths below it; any other path allows only itself.
    """

    methods: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    def allows_method(self, method: str) -> bool:
        """Return whether a method is allowed."""
        return not self.methods or method in self.methods

    def allows_path(self, path: str) -> bool:
        """Return whether a path, without its query, is allowed."""
        if not self.paths:
            return True
        below = any(entry.endswith("/") and path.startswith(entry) for entry in self.paths)
        return is_unambiguous_path(path) and (path in self.paths or below)


def is_unambiguous_path(path: str) -> bool:
    """Return whether all servers interpret a path in the same way.

    Such a path has no parts to resolve, no double encoding, and no characters that normalization changes.
    """
    if _AMBIGUOUS_PATH_PATTERN.search(path):
        return False
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:  # Overlong UTF-8 encodings of dots and slashes are invalid and end here.
        return False
    folded = unicodedata.normalize("NFKC", decoded)
    return all(folded.count(mark) == decoded.count(mark) for mark in "./\\%;")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """The hosts that code can reach, and the requests that it can send.

    An entry of `hosts` is a folded name, or a dot and a name (for all subdomains). An entry with a
    rule in `http` can be reached over plain HTTP only, because TLS hides methods and paths. A request is
    allowed if any entry allows it. `connect_timeout_s` limits one connection attempt, including name
    resolution.
    """

    mode: NetworkMode = NetworkMode.BLOCKED
    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset({443})
    connect_timeout_s: float = 5.0
    http: Mapping[str, HttpRule] = field(default_factory=dict)

    def rules(self, name: str) -> Iterator[HttpRule | None]:
        """Yield the rule of each entry that covers a folded name or entry.

        The rule is None for an entry without rules.
        """
        return (self.http.get(entry) for entry in sorted(self.hosts) if entry_covers(entry, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPolicy:
    """The modules that guest code can import, and the names in them that it can use.

    `allowed` combines categories, custom imports and the keys of `names`. `names` restricts a module to the
    listed attributes; modules that aren't its keys are unrestricted. `denied` holds modules, attributes
    (``os.system``) and builtins (``eval``), and overrides `allowed` while `enforce_forbidden` is on.
    """

    mode: ImportMode = ImportMode.ENFORCE
    categories: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    submodules: SubmoduleRule = SubmoduleRule.INHERIT
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    enforce_forbidden: bool = True

    def allows(self, module: str) -> bool:
        """Return whether the dotted name `module` can be imported, whatever the import mode is."""
        if self.enforce_forbidden and any(_includes_module(d, module) for d in self.denied):
            return False
        if self.submodules is SubmoduleRule.EXACT:
            return module in self.allowed
        return any(_includes_module(a, module) for a in self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContract:
    """The requirements for an adapter module, used by the kind `module` only.

    Source: docs/kinds/module.md.

    A class registered by one of `decorators` must define all `methods` itself. `forbidden` lists the names
    that must not occur in any file of the module: modules, attributes of modules (``os.write``) and
    builtins. `modules` are the names under which the container provides the decorators and `base_classes`.
    """

    decorators: tuple[str, ...] = ("register_adapter",)
    methods: tuple[str, ...] = ("fetch_raw", "transform", "get_schema")
    base_classes: tuple[str, ...] = ("Adapter",)
    modules: tuple[str, ...] = ("assayd_adapter",)
    forbidden: frozenset[str] = frozenset()


class IgnoredErrorSeverity(StrEnum):
    """The severity of an error that a command printed in a step that continued and passed."""

    OFF = "off"
    """The error isn't reported."""
    WARNING = "warning"
    """The error is a warning."""
    UNCAUGHT = "uncaught"
    """An error if ``set -e`` with ``pipefail`` would have ended the step, otherwise a warning."""
    ERROR = "error"
    """The error fails the submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPolicy:
    """The commands that a shell script can run.

    Only listed commands are allowed; `blocked` overrides all lists of allowed commands.

    `options` lists the rejected long options (``--output``) and short options (``-o``) per command.
    `protected` names variables that no script may set; a final ``*`` matches any suffix. If no profile sets
    `ignored_errors`, it is None and treated as a warning.
    """

    allowed: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    builtins: frozenset[str] = frozenset()
    options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    ignored_errors: IgnoredErrorSeverity | None = None

    def protects(self, variable: str) -> bool:
        """Return whether scripts are forbidden to set a variable."""
        return any(
            variable.startswith(name[:-1]) if name.endswith("*") else variable == name
            for name in self.protected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePolicy:
    """The resources of an attempt. The memory limit excludes the image's baseline."""

    timeout_s: float = 30.0
    unit_timeout_s: float = 30.0
    memory_bytes: int = 256 * 2**20
    max_processes: int = 4


class RuleLevel(StrEnum):
    """The severity that a profile assigns to a rule."""

    OFF = "off"
    """The rule isn't reported."""
    WARNING = "warning"
    """The rule produces a warning."""
    ERROR = "error"
    """The rule fails the submission."""


SQL_RULES = frozenset(
    {
        "sql.alter", "sql.delete_without_where", "sql.drop", "sql.empty", "sql.if_not_exists",
        "sql.not_understood", "sql.pragma", "sql.replace", "sql.statement", "sql.trigger",
        "sql.update_without_where", "sql.virtual_table", "sql.where_constant",
    }
)  # fmt: skip
"""The SQL rules that a profile can set. Rules about access outside the database aren't among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPolicy:
    """The limits of a step's SQL and of the stored rows.

    Rows beyond `max_rows` are counted but not stored; longer cells are truncated to `max_cell_chars`. `rules`
    are the severities that the profile sets, sorted by rule; other rules keep their default.
    """

    max_bytes: int = 256 * 2**10
    max_statements: int = 1000
    max_rows: int = 1000
    max_cell_chars: int = 500
    rules: tuple[tuple[str, RuleLevel], ...] = ()

    def level(self, rule: str) -> RuleLevel | None:
        """Return the severity that the profile sets for a rule, or None if it sets none."""
        return next((level for name, level in self.rules if name == rule), None)

    def admits(self, rule: str) -> bool:
        """Return whether the profile permits violations of a rule, which then only warns or is off."""
        return self.level(rule) in {RuleLevel.WARNING, RuleLevel.OFF}


QUALITY_RULES = frozenset(
    {
        "quality.all_none", "quality.constant", "quality.echo", "quality.empty_output", "quality.hard_coded",
        "quality.key", "quality.mutants", "quality.no_assertion", "quality.no_rows", "quality.not_from_path",
        "quality.not_json", "quality.not_run", "quality.some_empty", "quality.swallowed", "quality.tautology",
        "quality.types_differ", "quality.unread_input", "quality.untested_method",
        "quality.unused_result", "quality.varying",
    }
)  # fmt: skip
"""The rules about passes without value, which a profile can set. Source: docs/quality.md."""


MAX_MUTANTS = 50
"""The maximum number of mutants that a profile can request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPolicy:
    """The severity of quality findings, which report low value, and the effort for finding them.

    `severity` applies to all quality rules; `rules` overrides it for individual rules. With
    `generalization`, extractors also get paths similar to the samples. `mutants` is the number of changes
    to an adapter that are tried against its tests.
    """

    severity: RuleLevel = RuleLevel.WARNING
    rules: tuple[tuple[str, RuleLevel], ...] = ()
    generalization: bool = True
    mutants: int = 0

    def level(self, rule: str) -> RuleLevel:
        """Return the severity of a quality rule: its own, or the severity of all quality rules."""
        return next((level for name, level in self.rules if name == rule), self.severity)

    @property
    def is_off(self) -> bool:
        """Return whether all quality rules are off."""
        levels = {self.severity, *(level for _, level in self.rules)}
        return levels == {RuleLevel.OFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """The inclusive range of a limit."""

    least: float
    most: float

    def clamp(self, value: float) -> float:
        """Return the value, limited to the range."""
        return min(max(value, self.least), self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRanges:
    """The range of each limit of a profile. Values outside the range are clamped."""

    timeout_s: LimitRange = LimitRange(least=1, most=60)
    unit_timeout_s: LimitRange = LimitRange(least=1, most=60)
    memory_mb: LimitRange = LimitRange(least=64, most=512)
    max_processes: LimitRange = LimitRange(least=1, most=8)


DEFAULT_BOUNDS = LimitRanges()
"""The bounds that apply if neither the profile nor the operator sets others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampedValue:
    """A value of a profile that was changed because it was out of range."""

    __pydantic_config__ = DOCUMENT

    field: str = dataclasses.field(metadata=document_field("The profile's field."))
    requested: float = dataclasses.field(metadata=document_field("Requested value."))
    effective: float = dataclasses.field(metadata=document_field("Effective value."))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """A profile with its effective values.

    `image` is the image name without its prefix (``science``), or None for the kind's image. If `exec` is
    true, code can execute files that it wrote. `digest` is the SHA-256 of the canonical effective values.
    Results under `enforcement = "report"` can be approved only with `approve_reported`.
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
    clamped: tuple[ClampedValue, ...] = ()
    digest: str = ""

    @property
    def is_report_only(self) -> bool:
        """Return whether violations of the profile's rules are only reported."""
        return self.enforcement is Enforcement.REPORT

    @property
    def approvable(self) -> bool:
        """Return whether a validated result can be approved or committed."""
        return self.approve_reported or not self.is_report_only

    def find_unenforceable_part(self, *, egress: bool) -> str | None:
        """Return the part of this policy that can't be enforced, or None.

        An allowlist without hosts can be enforced: it denies everything, like a container without a network.

        Args:
            egress: whether the relay is enabled.
        """
        if self.network.mode is NetworkMode.ALLOWLIST and self.network.hosts and not egress:
            count = len(self.network.hosts)
            return f"its network allowlist has {count} host(s), but the relay is off (egress.enabled)"
        return None

    def to_runtime_policy(self) -> ExecutionPolicy:
        """Return the form of this policy that is used to plan a run.

        In report-only mode, imports are only observed, and SQL rules yield warnings.
        """
        if not self.is_report_only:
            return self
        rules = tuple((rule, RuleLevel.WARNING) for rule in sorted(SQL_RULES))
        return replace(
            self,
            imports=replace(self.imports, mode=ImportMode.OBSERVE),
            sql=replace(self.sql, rules=rules),
        )


def _includes_module(allowed: str, module: str) -> bool:
    return module == allowed or module.startswith(allowed + ".")
