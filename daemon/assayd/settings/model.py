"""The settings there are: names, defaults, ranges, and a sentence for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    model_validator,
)

from assayd.model.policy import Bounds, Range
from assayd.model.run import Limits
from assayd.ports.egress import EgressLimits
from assayd.settings import default_places
from assayd.settings.values import known_group, loopback, no_bool, no_public_http, octal, parted
from assayd.settings.webhooks import WebhookSettings

KIB, MIB = 2**10, 2**20


Count = Annotated[int, BeforeValidator(no_bool), Field(ge=1)]
Zero = Annotated[int, BeforeValidator(no_bool), Field(ge=0)]
Seconds = Annotated[float, BeforeValidator(no_bool), Field(gt=0, allow_inf_nan=False)]
Mode = Annotated[
    int, BeforeValidator(octal), Field(ge=0, le=0o777), PlainSerializer(lambda mode: f"{mode:04o}")
]
Group = Annotated[str, AfterValidator(known_group)]
Loopback = Annotated[str, AfterValidator(loopback)]
Pair = tuple[Seconds, Seconds]


OWN_POLICIES = Path("/etc/assayd/policies")
"""Where an installation has room for the operator's own."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineSettings(_Section):
    """The container engine."""

    kind: Literal["auto", "docker", "oci"] = Field(
        "auto", description="What makes containers; auto: Docker where it answers, else crun or runc itself."
    )
    url: str | None = Field(
        None,
        description="Engine socket; unset: DOCKER_HOST, then the engine's default.",
        examples=["unix:///run/docker.sock"],
    )
    images_dir: Path | None = Field(
        None,
        description="Unpacked images (oci); unset: below the state directory. Daemons may share it.",
        examples=["/var/lib/assayd/images"],
    )
    templates: Literal["on", "off"] = Field(
        "on",
        description="Clone containers from a warm one per kind (oci), where that holds; else start each.",
    )
    run_dir: Path = Field(
        default_factory=default_places.run_dir,
        description="What lives no longer than containers do (oci); one for all daemons of a user.",
        examples=["/run/assayd-oci"],
    )
    threads: Count = Field(8, description="Blocking engine calls that may run at once.")
    timeout_s: Seconds = Field(30.0, description="Longest that one engine call may take.")
    patience_s: float = Field(
        60, ge=0, description="How long attempts wait for an engine that went away, before they are errors."
    )
    holes_are_errors: bool = Field(False, description="Refuse an engine version with known holes; else warn.")


class ImageSettings(_Section):
    """Images of the operator's own."""

    recipes_dir: Path = Field(
        Path("/etc/assayd/images.d"), description="Recipes of your own, NAME.toml; the folder need not exist."
    )


class AttemptSettings(_Section):
    """Attempts."""

    max_runs: Annotated[Count, Field(le=2)] = Field(
        2, description="Runs of an attempt at most; 1 beside assayd-node, which counts over all nodes."
    )


class PoolSettings(_Section):
    """The pool of warm containers."""

    enabled: bool = Field(True, description="Keep containers started ahead of need.")
    default_target: Zero | None = Field(
        None,
        description="Idle containers kept per kind in use; who sends much leaves two of them to others. "
        "Unset: 4, or 2 where they come and go in milliseconds.",
        examples=[4],
    )
    unused_target: Zero = Field(
        1, description="Idle containers kept per kind that was not asked for within the last hour."
    )
    ceiling_idle_memory_mb: Zero = Field(1024, description="Memory that idle containers may hold in all.")
    max_idle_age_s: Seconds = Field(600.0, description="An idle container older than this is replaced.")
    refill_concurrency: Count = Field(1, description="Containers created at once to refill the pool.")


class AnalysisSettings(_Section):
    """The worker processes that parse submitted text."""

    workers: Annotated[Count, Field(le=16)] = Field(
        3, description="Worker processes. A user has all but one, unless there is only one."
    )
    memory_mb: Count = Field(
        1024,
        description="Address space of one worker; it ends beyond that. Reading bash needs more than 640.",
    )
    cpu_s: Count = Field(5, description="Processor time of one check; the worker ends beyond that.")


class LimitsSettings(_Section):
    """How much work is taken in."""

    queue_length: Count = Field(10_000, description="Attempts that may wait; more are refused with 429.")
    queue_mb: Count = Field(
        128, description="Bodies on their way in and what waits, in memory; beyond that, refused with 429."
    )
    attempts_per_uid: Count = Field(5_000, description="Unfinished attempts of one user.")
    batches_per_uid: Count = Field(100, description="Unfinished batches of one user.")
    batch_lines: Count = Field(100_000, description="Lines of one batch.")
    batch_concurrency: Count = Field(32, description="Unfinished attempts of one batch at once.")
    connections: Count = Field(256, description="Open connections to the socket.")
    silence_s: Seconds = Field(30.0, description="Longest pause within a request, or in taking an answer.")
    body_s: Seconds = Field(120.0, description="Longest that the body of a request may take, in all.")
    batch_body_s: Seconds = Field(3600.0, description="The same for a batch; what came until then stays.")
    library_mb_per_uid: Count = Field(
        256,
        description="Documents, bundles and rows that approved attempts of one user may take; more approvals "
        "are refused with 429.",
    )
    silent_upload_h: Count = Field(
        24, description="Hours after which a batch whose upload broke off counts as sent to its end."
    )
    min_free_mb: Zero = Field(
        256,
        description="Room for artifacts below which nothing is accepted; below twice that, nothing of who "
        "holds the most, whose oldest bundles are removed.",
    )


class EgressSettings(_Section):
    """The relay to the hosts that profiles list."""

    enabled: bool = Field(True, description="Reach listed hosts; off: a profile that lists any is refused.")
    streams: Annotated[Count, Field(le=64)] = Field(32, description="Connections of an attempt at once.")
    connections: Count = Field(512, description="Connections and requests of an attempt, in all.")
    bytes_up: Count = Field(32 * MIB, description="Bytes that an attempt may send.")
    bytes_down: Count = Field(64 * MIB, description="Bytes that an attempt may receive.")
    open_at_once: Count = Field(256, description="Connections of all attempts at once.")

    def limits(self) -> EgressLimits:
        """Return what the connections of an attempt may use."""
        return EgressLimits(**self.model_dump(exclude={"enabled"}))


class CapsSettings(_Section):
    """How large single things may be; some can only be lowered, as what reads them ends there."""

    body_bytes: Count = Field(16 * MIB, description="Request body, and one line of a batch.")
    source_bytes: Annotated[Count, Field(le=MIB)] = Field(1 * MIB, description="One source text.")
    inputs_bytes: Count = Field(12 * MIB, description="Inputs of a code node.")
    sample_paths: Annotated[Count, Field(le=100)] = Field(100, description="Sample paths of an extractor.")
    steps: Annotated[Count, Field(le=100)] = Field(100, description="Steps of a pipeline.")
    unit_result_bytes: Annotated[Count, Field(le=8 * MIB)] = Field(8 * MIB, description="Result of one unit.")
    attempt_result_bytes: Count = Field(16 * MIB, description="Results of one attempt.")
    output_kept_bytes: Count = Field(256 * KIB, description="Kept of stdout and of stderr, head and tail.")
    output_read_bytes: Count = Field(16 * MIB, description="Output after which a unit is stopped.")
    outputs_files: Count = Field(100, description="Declared output files.")
    outputs_bytes: Count = Field(16 * MIB, description="Declared output files, in all.")
    findings: Count = Field(500, description="Findings of one report.")
    retry_context_bytes: Count = Field(32 * KIB, description="Text of a report for a model that tries again.")

    def limits(self) -> Limits:
        """Return the caps of an attempt, without what its policy limits."""
        return Limits(
            timeout_s=0,
            unit_timeout_s=0,
            memory_bytes=0,
            max_processes=0,
            **self.model_dump(
                exclude={"body_bytes", "source_bytes", "inputs_bytes", "sample_paths", "steps"}
            ),
        )


class Reach(_Section):
    """The least and the most that each limit of a policy may be."""

    timeout_s: Pair = Field((1, 60), description="Seconds of an attempt.")
    unit_timeout_s: Pair = Field((1, 60), description="Seconds of a unit.")
    memory_mb: Pair = Field((64, 512), description="Megabytes.")
    max_processes: Pair = Field((1, 8), description="Processes and threads.")

    @model_validator(mode="after")
    def _in_order(self) -> Reach:
        for name, (least, most) in self:
            if least > most:
                raise ValueError(f"{name}: the least is over the most")
        return self

    def bounds(self) -> Bounds:
        """Return the value that policies are loaded with."""
        return Bounds(**{name: Range(least=least, most=most) for name, (least, most) in self})


class WidestReach(Reach):
    """How far a profile's own bounds may reach."""

    max_processes: Pair = Field((1, 64), description="Processes and threads.")


class AccessSettings(_Section):
    """Who may connect, beyond root and the daemon's own user. Empty lists leave it to the socket's mode."""

    uids: tuple[Zero, ...] = Field((), description="Users that may connect.")
    gids: tuple[Zero, ...] = Field((), description="Groups whose members may connect.")
    operators_group: Group | None = Field(
        None,
        description="Group that sees and cancels everybody's attempts.",
        examples=["assayd-operators"],
    )


class RetentionSettings(_Section):
    """How long what is finished is kept, and how much of it; of who holds the most, the oldest goes first."""

    days: Count = Field(30, description="Attempts and bundles older than this are removed.")
    attempts: Count = Field(500_000, description="Finished attempts kept at most.")
    bundles_mb: Count = Field(20_480, description="Room on the disk that bundles may take in all.")


class MetricsSettings(_Section):
    """Metrics beyond the socket."""

    listen: Loopback | None = Field(
        None,
        description="Loopback address and port for /metrics and /healthz; unset: the socket alone.",
        examples=["127.0.0.1:9464"],
    )

    @property
    def address(self) -> tuple[str, int] | None:
        """Return host and port."""
        return parted(self.listen) if self.listen is not None else None


class RepairProvider(_Section):
    """One provider of fixes; which fields it needs depends on its type."""

    type: Literal["command", "gemini", "openai", "anthropic"] = Field(description="What stands behind it.")
    argv: tuple[str, ...] = Field((), description="Program and arguments (command).")
    environment: dict[str, str] = Field({}, description="What the program gets beside PATH, HOME and LANG.")
    model: str | None = Field(None, description="Name of the model (all but command).")
    base_url: Annotated[str | None, AfterValidator(no_public_http)] = Field(
        None,
        pattern=r"^https?://",
        description="Address of a server that is not the vendor's but speaks the same; http only to hosts "
        "that are not public.",
    )
    key_variable: str | None = Field(
        None,
        description="Environment variable with the key; unset: the vendor's own, with base_url none.",
    )
    key_file: Path | None = Field(None, description="File that holds the key, readable by its owner only.")
    max_tokens: Count | None = Field(None, description="Longest answer; unset: the API's, or 16384.")
    timeout_s: Seconds = Field(120.0, description="Longest that one call of an API may take.")

    @model_validator(mode="after")
    def _complete(self) -> RepairProvider:
        if self.type == "command" and not self.argv:
            raise ValueError("argv: a command needs a program")
        if self.type != "command" and not self.model:
            raise ValueError("model: a model needs a name")
        if self.key_variable is not None and self.key_file is not None:
            raise ValueError("key_variable, key_file: name one of them")
        return self


class RepairSettings(_Section):
    """The repair loop."""

    at_once: Count = Field(4, description="Repairs that go on at once.")
    max_attempts: Annotated[Count, Field(le=10)] = Field(
        3, description="Fixes tried when a request names no number."
    )
    timeout_s: Seconds = Field(300.0, description="Time of one repair, from the failure on.")
    on_exhausted: tuple[str, ...] = Field(
        (),
        description="Program that gets repair and report on its input when fixes are used up or it is stuck.",
    )
    providers: dict[str, RepairProvider] = Field({}, description="Providers beside `rules`, by name.")


class LogSettings(_Section):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level written.")
    format: Literal["json", "console"] = Field(
        "json", description="One JSON object per line, or for reading."
    )


class RootSettings(_Section):
    """All settings of a program, with where each was set."""

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def origins(self) -> Mapping[str, str]:
        """Return where each value that is not a default came from, by dotted name."""
        return self._origins

    def with_origins(self, origins: Mapping[str, str]) -> Self:
        """Return the same settings, with their origins."""
        copy = self.model_copy()
        copy._origins = dict(origins)
        return copy


class Settings(RootSettings):
    """All settings. ``pool.enabled`` is ``[pool] enabled`` in the file, ``ASSAYD_POOL__ENABLED`` outside."""

    socket: Path = Field(
        default_factory=default_places.socket,
        description="Where the API listens; a socket unit's own socket goes before it.",
        examples=["/run/assayd/assayd.sock"],
    )
    socket_group: Group | None = Field(
        None, description="Group that owns the socket; unset: the daemon's own.", examples=["assayd"]
    )
    socket_mode: Mode = Field(0o660, description="Permissions of the socket, octal.")
    state_dir: Path = Field(
        default_factory=default_places.state_dir,
        description="Database and artifacts.",
        examples=["/var/lib/assayd"],
    )
    database_url: str | None = Field(
        None,
        description="SQLAlchemy URL of the database; unset: SQLite in the state directory.",
        examples=["sqlite+aiosqlite:////var/lib/assayd/assayd.db"],
    )
    concurrency: Count = Field(
        default_factory=lambda: 4 * (os.cpu_count() or 1),
        description="Attempts that run at once; unset: four per processor.",
        examples=[8],
    )
    nice: Annotated[int, BeforeValidator(no_bool), Field(ge=-20, le=19)] = Field(
        -5, description="Scheduling priority, as nice counts; taken where allowed and nobody set another."
    )
    policy_folders: tuple[Path, ...] = Field(
        (OWN_POLICIES,), description="More folders with policy profiles; this one need not exist."
    )
    validators: tuple[str, ...] = Field((), description="Third-party validators that are enabled, by name.")
    tables: dict[str, tuple[Path, ...]] = Field(
        {}, description="Folders whose *.toml files add rules and words to a kind, by kind."
    )
    engine: EngineSettings = EngineSettings()
    images: ImageSettings = ImageSettings()
    attempts: AttemptSettings = AttemptSettings()
    pool: PoolSettings = PoolSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    limits: LimitsSettings = LimitsSettings()
    egress: EgressSettings = EgressSettings()
    caps: CapsSettings = CapsSettings()
    bounds: Reach = Reach()
    widest_bounds: WidestReach = WidestReach()
    access: AccessSettings = AccessSettings()
    retention: RetentionSettings = RetentionSettings()
    metrics: MetricsSettings = MetricsSettings()
    repair: RepairSettings = RepairSettings()
    webhooks: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
