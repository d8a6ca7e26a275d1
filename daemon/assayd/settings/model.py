"""The settings: their names, defaults, ranges and descriptions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_network
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

from assayd.model.hosts import parse_webhook_url
from assayd.model.policy import LimitRange, LimitRanges
from assayd.model.run import Limits
from assayd.ports.egress import EgressLimits
from assayd.settings.values import (
    get_default_run_dir,
    get_default_socket_path,
    get_default_state_dir,
    parse_octal,
    reject_bool,
    reject_public_http,
    require_known_group,
    require_loopback,
    split_address,
)


def _check_url(text: str) -> str:
    if "?" in parse_webhook_url(text).target:
        raise ValueError("a listed URL must not have a query; the URL of a request may have one")
    return text


def _check_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} isn't an address or a network, e.g. 10.1.2.3 or 10.1.2.0/24") from None
    return text


class WebhookReceiver(BaseModel):
    """A receiver of messages. Exactly one of `secret_file` and `secret_variable` must be set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="Start of allowed URLs: https://HOST[:PORT][/PATH]; http: private_addresses only."
    )
    secret_file: Path | None = Field(
        None, description="File with the secret (whsec_ and base64), readable by its owner only."
    )
    secret_variable: str | None = Field(None, description="Environment variable with the secret.")
    private_addresses: tuple[Annotated[str, AfterValidator(_check_network)], ...] = Field(
        (), description="Non-public addresses or networks that the daemon may connect to."
    )

    @model_validator(mode="after")
    def _check_complete(self) -> WebhookReceiver:
        if (self.secret_file is None) == (self.secret_variable is None):
            raise ValueError("secret_file, secret_variable: set one of them")
        if parse_webhook_url(self.url).scheme == "http" and not self.private_addresses:
            raise ValueError("url: http is allowed for private_addresses only; list them, or use https")
        return self


class WebhookSettings(BaseModel):
    """The settings of webhook messages, which are sent only to the listed receivers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout_s: Annotated[float, BeforeValidator(reject_bool), Field(gt=0, le=60)] = Field(
        10.0, description="Timeout of one try, in seconds."
    )
    retry_for_s: Annotated[float, BeforeValidator(reject_bool), Field(gt=0, le=30 * 86_400)] = Field(
        86_400.0, description="Seconds to retry an undelivered message, with growing pauses."
    )
    waiting_per_uid: Annotated[int, BeforeValidator(reject_bool), Field(ge=1)] = Field(
        10_000,
        description="Maximum waiting messages of one user; more requests with a URL are refused with 429.",
    )
    receivers: dict[str, WebhookReceiver] = Field({}, description="Receivers of messages, by name.")


KIB, MIB = 2**10, 2**20


Count = Annotated[int, BeforeValidator(reject_bool), Field(ge=1)]
Zero = Annotated[int, BeforeValidator(reject_bool), Field(ge=0)]
Seconds = Annotated[float, BeforeValidator(reject_bool), Field(gt=0, allow_inf_nan=False)]
Mode = Annotated[
    int, BeforeValidator(parse_octal), Field(ge=0, le=0o777), PlainSerializer(lambda mode: f"{mode:04o}")
]
Group = Annotated[str, AfterValidator(require_known_group)]
Loopback = Annotated[str, AfterValidator(require_loopback)]
Pair = tuple[Seconds, Seconds]


OWN_POLICIES = Path("/etc/assayd/policies")
"""The folder of the operator's profiles in an installation."""

# The defaults of the daemon's parts.
_EGRESS = EgressLimits()
_CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineSettings(_Section):
    """The settings of the container engine."""

    kind: Literal["auto", "docker", "oci"] = Field(
        "auto", description="Engine for containers; auto: Docker if it answers, otherwise crun or runc."
    )
    url: str | None = Field(
        None,
        description="Engine socket. Default: DOCKER_HOST, then the engine's default.",
        examples=["unix:///run/docker.sock"],
    )
    images_dir: Path | None = Field(
        None,
        description=(
            "Folder of unpacked images (oci); daemons can share it. Default: below the state directory."
        ),
        examples=["/var/lib/assayd/images"],
    )
    templates: Literal["on", "off"] = Field(
        "on",
        description="Clone containers from a warm one (oci) if isolation holds; off: start each one.",
    )
    run_dir: Path = Field(
        default_factory=get_default_run_dir,
        description="Run-time files of containers (oci), shared by all daemons of a user.",
        examples=["/run/assayd-oci"],
    )
    threads: Count = Field(8, description="Maximum number of simultaneous engine calls.")
    timeout_s: Seconds = Field(30.0, description="Timeout of one engine call, in seconds.")
    patience_s: float = Field(
        60,
        ge=0,
        description="Seconds that attempts wait for an unreachable engine before they end as errors.",
    )
    holes_are_errors: bool = Field(
        False, description="Refuse an engine version with published vulnerabilities; false: warn."
    )


class ImageSettings(_Section):
    """The settings of the operator's own images."""

    recipes_dir: Path = Field(
        Path("/etc/assayd/images.d"),
        description="Folder of your image recipes, NAME.toml; it may be missing.",
    )


class AttemptSettings(_Section):
    """The settings of attempts."""

    max_runs: Annotated[Count, Field(le=2)] = Field(
        2, description="Maximum runs of an attempt; more than one only after an internal error."
    )


class PoolSettings(_Section):
    """The settings of the pool of warm containers."""

    enabled: bool = Field(True, description="Start containers in advance.")
    default_target: Zero | None = Field(
        None,
        description="Idle containers to keep per kind in use; two are reserved for less active users. "
        "Unset: 4, or 2 with a fast engine.",
        examples=[4],
    )
    unused_target: Zero = Field(
        1, description="Idle containers to keep per kind without an attempt within the last hour."
    )
    ceiling_idle_memory_mb: Zero = Field(
        1024, description="Memory limit of all idle containers, in MB; beyond it none is started in advance."
    )
    max_idle_age_s: Seconds = Field(600.0, description="Replace idle containers after this many seconds.")
    refill_concurrency: Count = Field(1, description="Containers created simultaneously to refill the pool.")


class AnalysisSettings(_Section):
    """The settings of the worker processes that parse submitted text."""

    workers: Annotated[Count, Field(le=16)] = Field(
        3, description="Worker processes. One user can occupy all but one, unless there is only one."
    )
    memory_mb: Count = Field(
        1024,
        description="Address space of one worker, in MB; it ends beyond it. Parsing bash needs over 640.",
    )
    cpu_s: Count = Field(5, description="Processor time of one check, in seconds; the worker ends beyond it.")


class LimitsSettings(_Section):
    """The settings that limit the amount of accepted work."""

    queue_length: Count = Field(10_000, description="Maximum waiting attempts; more are refused with 429.")
    queue_mb: Count = Field(
        128,
        description="Memory for incoming bodies and waiting submissions, in MB; more are refused with 429.",
    )
    attempts_per_uid: Count = Field(
        5_000, description="Maximum unfinished attempts of one user; more are refused with 429."
    )
    batches_per_uid: Count = Field(
        100, description="Maximum unfinished batches of one user; more are refused with 429."
    )
    batch_lines: Count = Field(100_000, description="Maximum lines of one batch; more are refused.")
    batch_concurrency: Count = Field(
        32, description="Maximum unfinished attempts of one batch; other items wait."
    )
    connections: Count = Field(256, description="Maximum open connections to the socket.")
    silence_s: Seconds = Field(
        30.0, description="Longest pause while a client sends a request or reads an answer, in seconds."
    )
    body_s: Seconds = Field(120.0, description="Time limit for the body of a request, in seconds.")
    batch_body_s: Seconds = Field(
        3600.0, description="Time limit for the body of a batch, in seconds; lines that arrived before stay."
    )
    library_mb_per_uid: Count = Field(
        256,
        description="Disk space for approved attempts of one user, in MB; more approvals "
        "are refused with 429.",
    )
    silent_upload_h: Count = Field(
        24, description="Hours after which an interrupted batch upload counts as complete."
    )
    min_free_mb: Zero = Field(
        256,
        description="Free disk space to keep, in MB. Below it, all submissions are refused. Below twice "
        "that, the largest holders are refused and their oldest bundles are deleted.",
    )


class EgressSettings(_Section):
    """The settings of the relay to the hosts that profiles list."""

    enabled: bool = Field(True, description="Relay connections to listed hosts; false: refuse such profiles.")
    streams: Annotated[Count, Field(le=64)] = Field(
        _EGRESS.streams, description="Simultaneous connections of an attempt; more wait."
    )
    connections: Count = Field(
        _EGRESS.connections, description="Total connections and requests of an attempt; more are refused."
    )
    bytes_up: Count = Field(_EGRESS.bytes_up, description="Bytes that an attempt can send; more are refused.")
    bytes_down: Count = Field(
        _EGRESS.bytes_down, description="Bytes that an attempt can receive; more are refused."
    )
    open_at_once: Count = Field(
        _EGRESS.open_at_once, description="Simultaneous connections of all attempts; more wait."
    )

    def limits(self) -> EgressLimits:
        """Return the relay limits of an attempt."""
        return EgressLimits(**self.model_dump(exclude={"enabled"}))


class CapsSettings(_Section):
    """Maximum sizes of single items. If a reader has the same limit, it can only be lowered."""

    body_bytes: Count = Field(16 * MIB, description="Bytes of a request body, and of one line of a batch.")
    source_bytes: Annotated[Count, Field(le=MIB)] = Field(1 * MIB, description="Bytes of one source text.")
    inputs_bytes: Count = Field(12 * MIB, description="Bytes of the inputs of a code node.")
    sample_paths: Annotated[Count, Field(le=100)] = Field(
        100, description="Number of sample paths of an extractor."
    )
    steps: Annotated[Count, Field(le=100)] = Field(100, description="Number of steps of a pipeline.")
    unit_result_bytes: Annotated[Count, Field(le=8 * MIB)] = Field(
        _CAPS.unit_result_bytes, description="Bytes of the result of one unit."
    )
    attempt_result_bytes: Count = Field(
        _CAPS.attempt_result_bytes, description="Bytes of all results of one attempt."
    )
    output_kept_bytes: Count = Field(
        _CAPS.output_kept_bytes, description="Bytes of stdout and of stderr to keep (start, end)."
    )
    output_read_bytes: Count = Field(
        _CAPS.output_read_bytes, description="Bytes of output after which a unit is stopped."
    )
    outputs_files: Count = Field(_CAPS.outputs_files, description="Number of declared output files.")
    outputs_bytes: Count = Field(_CAPS.outputs_bytes, description="Bytes of all declared output files.")
    findings: Count = Field(_CAPS.findings, description="Number of findings of one report.")
    retry_context_bytes: Count = Field(
        _CAPS.retry_context_bytes, description="Bytes of a retry context, the text for a model's next try."
    )

    def limits(self) -> Limits:
        """Return the caps of an attempt, without the limits of its policy."""
        return Limits(
            timeout_s=0,
            unit_timeout_s=0,
            memory_bytes=0,
            max_processes=0,
            **self.model_dump(
                exclude={"body_bytes", "source_bytes", "inputs_bytes", "sample_paths", "steps"}
            ),
        )


class LimitBounds(_Section):
    """The settings of the minimum and maximum of each policy limit."""

    timeout_s: Pair = Field((1, 60), description="Minimum and maximum seconds of an attempt.")
    unit_timeout_s: Pair = Field((1, 60), description="Minimum and maximum seconds of a unit.")
    memory_mb: Pair = Field((64, 512), description="Minimum and maximum memory, in MB.")
    max_processes: Pair = Field((1, 8), description="Minimum and maximum number of processes and threads.")

    @model_validator(mode="after")
    def _require_order(self) -> LimitBounds:
        for name, (least, most) in self:
            if least > most:
                raise ValueError(f"{name}: the minimum exceeds the maximum")
        return self

    def bounds(self) -> LimitRanges:
        """Return the bounds as `LimitRanges`."""
        return LimitRanges(**{name: LimitRange(least=least, most=most) for name, (least, most) in self})


class WidestLimitBounds(LimitBounds):
    """The widest bounds that a profile can set."""

    max_processes: Pair = Field((1, 64), description="Minimum and maximum number of processes and threads.")


class AccessSettings(_Section):
    """The users that can connect, besides root and the daemon's user. Default: by the socket's mode."""

    uids: tuple[Zero, ...] = Field((), description="User ids that can connect.")
    gids: tuple[Zero, ...] = Field((), description="Group ids whose members can connect.")
    operators_group: Group | None = Field(
        None,
        description="Group whose members see and cancel all users' attempts.",
        examples=["assayd-operators"],
    )


class RetentionSettings(_Section):
    """Age and size limits of finished attempts. The oldest ones of the user with most data go first."""

    days: Count = Field(30, description="Delete attempts and bundles after this many days.")
    attempts: Count = Field(
        500_000,
        description="Maximum finished attempts to keep; the oldest of the largest holder are deleted first.",
    )
    bundles_mb: Count = Field(
        20_480, description="Disk space for bundles, in MB; beyond it, bundles are deleted in the same order."
    )


class MetricsSettings(_Section):
    """The settings of the separate socket for metrics."""

    listen: Loopback | None = Field(
        None,
        description="Loopback address and port for /metrics and /healthz; unset: only the socket.",
        examples=["127.0.0.1:9464"],
    )

    @property
    def address(self) -> tuple[str, int] | None:
        """Return the host and port of the metrics' socket, or None if no address is set."""
        return split_address(self.listen) if self.listen is not None else None


class RepairProvider(_Section):
    """One provider of fixes. The required fields depend on its type."""

    type: Literal["command", "gemini", "openai", "anthropic"] = Field(description="Type of the provider.")
    argv: tuple[str, ...] = Field((), description="Program and arguments (command).")
    environment: dict[str, str] = Field(
        {}, description="Environment variables of the program, in addition to PATH, HOME and LANG."
    )
    model: str | None = Field(None, description="Name of the model (all but command).")
    base_url: Annotated[str | None, AfterValidator(reject_public_http)] = Field(
        None,
        pattern=r"^https?://",
        description="Address of another server with the vendor's API; http only for hosts "
        "that aren't public.",
    )
    key_variable: str | None = Field(
        None,
        description="Environment variable with the key; unset: the vendor's usual one; none with base_url.",
    )
    key_file: Path | None = Field(None, description="File with the key, readable by its owner only.")
    max_tokens: Count | None = Field(
        None, description="Maximum tokens of an answer; unset: the API's limit, or 16384."
    )
    timeout_s: Seconds = Field(120.0, description="Timeout of one API call, in seconds.")

    @model_validator(mode="after")
    def _require_complete(self) -> RepairProvider:
        if self.type == "command" and not self.argv:
            raise ValueError("argv: a command needs a program")
        if self.type != "command" and not self.model:
            raise ValueError("model: a model needs a name")
        if self.key_variable is not None and self.key_file is not None:
            raise ValueError("key_variable, key_file: name one of them")
        return self


class RepairSettings(_Section):
    """The settings of the repair loop."""

    at_once: Count = Field(4, description="Maximum simultaneous repairs; more wait.")
    max_attempts: Annotated[Count, Field(le=10)] = Field(
        3, description="Maximum fixes of a chain, unless a request sets fewer."
    )
    timeout_s: Seconds = Field(300.0, description="Time limit of one repair, in seconds from the failure.")
    questions: bool = Field(
        False, description="Let models answer an ambiguous request of a generation with a question."
    )
    on_exhausted: tuple[str, ...] = Field(
        (),
        description="Program to run if a repair or generation ends without a pass; it reads JSON on stdin.",
    )
    providers: dict[str, RepairProvider] = Field({}, description="Providers in addition to `rules`, by name.")


class AttestationSettings(_Section):
    """The settings of signed verdicts."""

    key: Path | None = Field(
        None,
        description="Ed25519 private key in PEM that signs each bundle; unset: nothing is signed.",
        examples=["/etc/assayd/attestation.key"],
    )
    command: tuple[str, ...] = Field(
        (),
        description="Program that signs instead: bytes on stdin, the signature in base64 on stdout.",
        examples=[["/usr/local/bin/sign"]],
    )
    command_key: Path | None = Field(None, description="Public key of the command, in PEM.")
    timeout_s: Seconds = Field(10.0, description="Time limit of the command, in seconds.")
    name: str | None = Field(
        None, max_length=200, description="Name of this daemon in its statements. Default: only its id."
    )

    @property
    def is_on(self) -> bool:
        """Return whether verdicts are signed."""
        return self.key is not None or bool(self.command)


class TracingSettings(_Section):
    """The settings for traces of attempts, which are sent to an OpenTelemetry collector."""

    endpoint: str | None = Field(
        None,
        pattern=r"^https?://[!-~]+$",
        description="Address of a collector that accepts OTLP over HTTP; unset: nothing is traced.",
        examples=["http://127.0.0.1:4318/v1/traces"],
    )
    sample_ratio: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of attempts to trace; of those that a caller asks to trace, at most this share.",
    )
    continue_callers: bool = Field(
        True, description="Continue the trace that a request's `traceparent` names; false: ignore it."
    )
    headers_file: Path | None = Field(
        None,
        description="File with headers for the collector, one `Name: value` per line.",
        examples=["/etc/assayd/tracing-headers"],
    )
    ca_file: Path | None = Field(None, description="Certificates that the collector is checked against.")
    service_name: str = Field("assayd", max_length=100, description="Name of this service in traces.")
    queue: Count = Field(
        4096, description="Maximum spans that wait for the collector; more are dropped and counted."
    )
    timeout_s: Seconds = Field(5.0, description="Time limit of one delivery with its retries, in seconds.")


class LogSettings(_Section):
    """The settings of the log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level to write.")
    format: Literal["json", "console"] = Field(
        "json", description="json: one object per line; console: for people."
    )


class RootSettings(_Section):
    """All settings of a program, with their origins."""

    _origins: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the origin, by dotted name, of each value that isn't a default."""
        return self._origins

    def with_origins(self, origins: Mapping[str, str]) -> Self:
        """Return a copy of the settings with the given origins."""
        copy = self.model_copy()
        copy._origins = dict(origins)
        return copy


class Settings(RootSettings):
    """All settings of the daemon.

    The setting ``pool.enabled`` is ``[pool] enabled`` in the file and ``ASSAYD_POOL__ENABLED`` in the
    environment.
    """

    socket: Path = Field(
        default_factory=get_default_socket_path,
        description="Path of the API's socket; the socket of a socket unit overrides it.",
        examples=["/run/assayd/assayd.sock"],
    )
    socket_group: Group | None = Field(
        None, description="Group that owns the socket; unset: the daemon's group.", examples=["assayd"]
    )
    socket_mode: Mode = Field(0o660, description="Permissions of the socket, octal.")
    state_dir: Path = Field(
        default_factory=get_default_state_dir,
        description="Directory of the database and artifacts.",
        examples=["/var/lib/assayd"],
    )
    database_url: str | None = Field(
        None,
        description="SQLAlchemy URL of the database; unset: SQLite in the state directory.",
        examples=["sqlite+aiosqlite:////var/lib/assayd/assayd.db"],
    )
    concurrency: Annotated[Count, Field(le=1000)] = Field(
        default_factory=lambda: 4 * (os.cpu_count() or 1),
        description="Maximum simultaneous attempts; unset: four per processor.",
        examples=[8],
    )
    executors: Annotated[int, BeforeValidator(reject_bool), Field(ge=0, le=8)] = Field(
        0,
        description="Processes that run containers, so that more processors can be used. They divide the "
        "pool's limits; 0: the daemon itself runs containers.",
        examples=[2],
    )
    nice: Annotated[int, BeforeValidator(reject_bool), Field(ge=-20, le=19)] = Field(
        -5, description="Scheduling priority (nice value), applied if allowed and not set otherwise."
    )
    policy_folders: tuple[Path, ...] = Field(
        (OWN_POLICIES,), description="Additional folders with profiles; the default one may be missing."
    )
    validators: tuple[str, ...] = Field((), description="Names of enabled third-party validators.")
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
    bounds: LimitBounds = LimitBounds()
    widest_bounds: WidestLimitBounds = WidestLimitBounds()
    access: AccessSettings = AccessSettings()
    retention: RetentionSettings = RetentionSettings()
    metrics: MetricsSettings = MetricsSettings()
    repair: RepairSettings = RepairSettings()
    webhooks: WebhookSettings = WebhookSettings()
    attestation: AttestationSettings = AttestationSettings()
    tracing: TracingSettings = TracingSettings()
    log: LogSettings = LogSettings()
