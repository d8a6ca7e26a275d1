"""Implements `assay policy`, which shows, checks, explains and tries profiles."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from assayd.errors import ConfigError, RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.options import FAILED, Json, open_client, parse_age
from assayd_client.cli.terminal import plain, print_json, print_result

if TYPE_CHECKING:
    from assayd.egress.decision import InvalidTarget, Target
    from assayd.model.policy import HttpRule, NetworkPolicy

CODE = "policy.file"


def check_policies_on_daemon(client: PlainClient, file: Path | None) -> Sequence[Document]:
    """Return the effective profile of a file, or all of the daemon's profiles without a file.

    The file is checked together with the daemon's profiles. Raises: ConfigError ``policy.file``, with all
    problems; RequestError ``file.unreadable``.
    """
    if file is None:
        profiles: Sequence[Document] = client.policies()["policies"]
        return profiles
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RequestError("file.unreadable", f"{file}: {error.strerror}") from error
    answer = client.check_policy(file.stem, content)
    if answer["policy"] is None:
        raise ConfigError(CODE, "\n".join(_format_problem(file, each) for each in answer["problems"]))
    return [answer["policy"]]


def check_policies_locally(file: Path | None) -> Sequence[Document]:
    """Check profiles without a daemon, based on the settings and profiles of this host.

    Raises: ConfigError ``policy.file``, with all problems.
    """
    from assayd.policies import describe_policy
    from assayd.settings import load_settings
    from assayd.wiring.profiles import load_profiles

    policies = load_profiles(load_settings())
    found = [policies.resolve_file(file)] if file is not None else map(policies.get, policies.names)
    return [describe_policy(policy, egress=policies.egress) for policy in found]


def iter_policy_notes(policy: Document) -> Iterator[str]:
    """Yield notes for a profile's author about clamped values, refused values, and allowlists."""
    for clamp in policy["clamped"]:
        asked, given = clamp["requested"], clamp["effective"]
        yield f"{policy['name']}: {clamp['field']} = {asked:g} is clamped to {given:g} by the bounds"
    if not policy["enforceable"]:
        yield f"{policy['name']}: every submission is refused: {policy['unenforceable_reason']}"
    yield from _iter_allowlist_lines(policy["name"], parse_network_policy(policy))


def parse_network_policy(policy: Document) -> NetworkPolicy:
    """Return the network policy in a profile document."""
    from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy

    document = policy["network"]
    rules = {
        entry: HttpRule(methods=frozenset(rule["methods"]), paths=frozenset(rule["paths"]))
        for entry, rule in document["http"].items()
    }
    return NetworkPolicy(
        mode=NetworkMode(document["mode"]),
        hosts=frozenset(document["hosts"]),
        ports=frozenset(document["ports"]),
        connect_timeout_s=document["connect_timeout_s"],
        http=rules,
    )


def _iter_allowlist_lines(name: str, network: NetworkPolicy) -> Iterator[str]:
    """Yield a line for each entry of an allowlist, or nothing without an allowlist."""
    from assayd.model.policy import NetworkMode

    if network.mode is not NetworkMode.ALLOWLIST:
        return
    if not network.hosts:
        yield f"{name}: the allowlist is empty, so all network access is refused"
    ports = ", ".join(str(port) for port in sorted(network.ports))
    for entry in sorted(network.hosts):
        hosts = (
            f"all subdomains of {entry[2:] if entry.startswith('*.') else entry[1:]}"
            if entry.startswith(".")
            else entry
        )
        yield f"{name}: {hosts}, port {ports}: {_describe_rule(network.http.get(entry))}"


def _describe_rule(rule: HttpRule | None) -> str:
    if rule is None:
        return "TLS, and plain HTTP with any method and path"
    methods = ", ".join(sorted(rule.methods)) or "any method"
    return f"plain HTTP only, {methods}, {', '.join(sorted(rule.paths)) or 'any path'}"


def _format_problem(file: Path, problem: Document) -> str:
    place = f"{file}:{problem['line']}" if problem["line"] is not None else f"{file}"
    table, _, name = problem["key"].rpartition(".")
    return f"{place}: {f'[{table}] ' if table else ''}{f'{name}: ' if name else ''}{problem['message']}"


HTTPS_PORT = 443


def explain_access(policy: Document, url: str, method: str) -> tuple[bool, str]:
    """Return whether a profile allows code to connect to a URL, and the reason.

    Raises: RequestError ``usage``, if the URL is invalid.
    """
    from assayd.egress.decision import AccessRequest, decide_access

    profile = policy["name"]
    target = _parse_target(url, method)
    decision = decide_access(parse_network_policy(policy), AccessRequest(target=target))
    if decision.allowed and not policy["enforceable"]:
        return False, f"{profile} refuses every submission: {policy['unenforceable_reason']}."
    if decision.allowed:
        when = "The host's addresses are checked at each connection."
        return True, f"{profile} allows {url}: {decision.rule} ({decision.reason}). {when}"
    return False, f"{profile} refuses {url}: {decision.rule} ({decision.reason}). {decision.hint}"


def _parse_target(url: str, method: str) -> Target | InvalidTarget:
    """Parse a URL as the target that a client would request from the relay."""
    from assayd.egress.decision import parse_target

    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise RequestError("usage", f"{url!r} isn't a URL: {problem}") from problem
    if parts.scheme == "http":
        return parse_target(method, url.partition("#")[0])
    if parts.scheme == "https":
        place = parts.netloc.removesuffix(":")
        bare = place.endswith("]") or ":" not in place.rpartition("@")[2]
        return parse_target("CONNECT", f"{place}:{HTTPS_PORT}" if bare else place)
    raise RequestError("usage", f"{url!r} is neither an http:// nor an https:// URL")


policy_app = typer.Typer(help="Show profiles, and check profile files.", no_args_is_help=True)


@policy_app.command("list")
def list_policies(context: typer.Context, as_json: Json = False) -> None:
    """List the daemon's profiles."""
    from assayd_client.cli.listing import POLICY_COLUMNS, build_policy_row

    with open_client(context) as client:
        policies = client.policies()["policies"]
    print_result(policies, POLICY_COLUMNS, map(build_policy_row, policies), as_json=as_json)


@policy_app.command("show")
def show_policy(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a profile's effective values, and the profile files that set them."""
    from assayd_client.cli.listing import POLICY_VALUE_COLUMNS, iter_policy_values

    with open_client(context) as client:
        policy = client.policy(name)
    print_result(policy, POLICY_VALUE_COLUMNS, iter_policy_values(policy), as_json=as_json)


@policy_app.command("check")
def check_policy(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Profile file in TOML. Default: all profiles in use."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Use the settings and profiles on this machine, without a daemon.")
    ] = False,
) -> None:
    """Check one or all profiles; print problems with their line numbers, or clamps and network rules."""
    try:
        if local:
            policies = check_policies_locally(file)
        else:
            with open_client(context) as client:
                policies = check_policies_on_daemon(client, file)
    except ConfigError as error:
        if error.code != CODE:
            raise
        print(plain(error.message), file=sys.stderr)
        raise typer.Exit(FAILED) from error
    print(f"{file or 'all profiles'}: valid")
    for policy in policies:
        for remark in iter_policy_notes(policy):
            print(plain(remark))


@policy_app.command("explain")
def explain_policy(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of the profile to use.")],
    url: Annotated[str, typer.Argument(metavar="[URL]", help="URL that submitted code would request.")] = "",
    method: Annotated[str, typer.Option(metavar="M", help="Check this request method.")] = "GET",
    python: Annotated[
        str,
        typer.Option(
            metavar="CODE", help="Check this Python code, such as an import, an attribute or a path."
        ),
    ] = "",
    bash: Annotated[
        str, typer.Option(metavar="CODE", help="Check this bash code: a command with its options and paths.")
    ] = "",
    sql: Annotated[str, typer.Option(metavar="CODE", help="Check these SQL statements.")] = "",
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Read the code as a submission of this kind.")
    ] = None,
) -> None:
    """Print whether a profile allows a URL or code, and show the deciding rule and the fix."""
    code = {name: text for name, text in (("python", python), ("bash", bash), ("sql", sql)) if text}
    if len(code) + bool(url) != 1:
        raise RequestError("usage", "pass a URL, or one of --python, --bash or --sql")
    with open_client(context) as client:
        if url:
            allowed, text = explain_access(client.policy(profile), url, method)
            lines = [text]
        else:
            [(language, text)] = code.items()
            found = client.explain_policy(profile, language=language, code=text, kind=kind)
            allowed, lines = found["allowed"], list(_iter_explanation_lines(found))
    print(plain("\n".join(lines)))
    if not allowed:
        raise typer.Exit(FAILED)


def _iter_explanation_lines(found: Document) -> Iterator[str]:
    """Yield lines with the findings of a profile's static rules about a piece of code."""
    answer = "allows" if found["allowed"] else "refuses"
    yield f"{found['policy']} {answer} it, as the kind {found['kind']} reads it; containers limit all code."
    for finding in found["findings"]:
        key = f" [{finding['profile_key']}]" if finding["profile_key"] else ""
        yield f"  {finding['rule']}{key}: {finding['message']}"
        if finding["suggestion"]:
            yield f"    {finding['suggestion']}"


Since = Annotated[
    str | None,
    typer.Option(metavar="AGE|TIME", help="Use attempts since this age or time: 7d, 12h, or RFC 3339."),
]
Batch = Annotated[str | None, typer.Option(metavar="ID", help="Use only attempts of this batch.")]
Label = Annotated[list[str] | None, typer.Option(metavar="K=V", help="Use only attempts with this label.")]
KindFilterOption = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="Use only attempts of this kind.")
]


@policy_app.command("try")
def try_policy(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Profile name, or a TOML file.")],
    since: Since = None,
    batch: Batch = None,
    label: Label = None,
    kind: KindFilterOption = None,
    run: Annotated[bool, typer.Option("--run", help="Run each submission again as a full attempt.")] = False,
    as_json: Json = False,
) -> None:
    """Check stored submissions against another profile; exits with status 1 if any that passed would fail."""
    policy, profile = _read_profile(name)
    wanted = build_review_query(since, batch, label, kind)
    body: Document = {}
    with open_client(context) as client:
        for event in client.try_policy(policy, profile=profile, run=run, **wanted):
            body = event.body
            if event.kind == "progress" and sys.stderr.isatty():
                print(f"\r{body['tried']} of {body['total']} tried", end="", file=sys.stderr)
    if not body:
        raise RequestError("lost", "the trial ended without a result; try again")
    if as_json:
        print_json(body)
    else:
        _print_trial(body)
    if body["would_fail"]:
        raise typer.Exit(FAILED)


@policy_app.command("suggest")
def suggest_policy(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Extend this profile. Default: the profile of the newest refusal."),
    ] = None,
    since: Since = None,
    batch: Batch = None,
    label: Label = None,
    kind: KindFilterOption = None,
    as_json: Json = False,
) -> None:
    """Print, as TOML, the smallest profile additions that would have allowed refused code."""
    with open_client(context) as client:
        found = client.suggest_policy(policy, **build_review_query(since, batch, label, kind))
    if as_json:
        print_json(found)
        return
    print(f"# {found['helped']} of {found['seen']} refused attempts need only these additions.")
    for one in found["additions"]:
        print(plain(f"# {one['key']} {one['name']}: {_format_counts(one)}"))
    print(plain(found["toml"]), end="")
    for one in found["withheld"]:
        print(plain(f"# withheld: {one['key']} {one['name']}: {_format_counts(one)}; {one['reason']}"))


def _format_counts(one: Document) -> str:
    attempts = f"{one['count']} attempt{'s' * (one['count'] != 1)}"
    return f"{attempts}, {one['enough']} need only this one, {one['first_at'][:10]} to {one['last_at'][:10]}"


def _print_trial(trial: Document) -> None:
    print(
        f"{trial['policy']} ({trial['mode']}): {trial['tried']} of {trial['total']} attempts tried; "
        f"{trial['would_fail']} would fail, {trial['would_pass']} would pass, "
        f"{trial['undecided']} need a run, {trial['left_out']} not tried"
    )
    for change in trial["changes"]:
        key = f" ({change['profile_key']})" if change["profile_key"] else ""
        print(plain(f"{change['direction'].replace('_', ' ')}  {change['count']:>5}  {change['rule']}{key}"))
        for example in change["examples"]:
            place = "" if example["line"] is None else f" line {example['line']}:"
            print(plain(f"    {example['attempt_id']} {example['kind']}:{place} {example['message'][:160]}"))


def _read_profile(name: str) -> tuple[str, str | None]:
    """Return the name of a profile and, if a file is given, its text. Raises: RequestError."""
    if not name.endswith(".toml"):
        return name, None
    try:
        return Path(name).stem, Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise RequestError("file.unreadable", f"{name}: {problem}") from problem


def build_review_query(
    since: str | None, batch: str | None, label: list[str] | None, kind: str | None
) -> Document:
    """Return the filters of an API request for stored attempts.

    The value of `since` can be an age such as 7d.
    """
    age = parse_age(since or "")
    if age is not None:
        since = (datetime.now(UTC) - age).isoformat()
    return {"since": since, "batch": batch, "labels": label or [], "kind": kind}
