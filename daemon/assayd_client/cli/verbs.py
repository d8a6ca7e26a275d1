"""The verbs of `assay`, as data: what each is called, what it takes, and which function does it.

This is the one place that says so. `quick` reads lines by it without any library, for scripts that call
`assay` in loops; `app` makes typer's commands of it, for help, completion, manual pages, and for what is
wrong in a line.
"""

from __future__ import annotations

from collections.abc import Mapping

from assayd_client.cli.validate_verb import FIELDS, ID, JSON, VALIDATE
from assayd_client.cli.verb import CommandVerb, Parameter

LIST = CommandVerb(
    name="list",
    help="List attempts, newest first.",
    run="commands:list_attempts",
    parameters=(
        Parameter(name="state", option="--state", metavar="TEXT", help="Only in this state."),
        Parameter(name="verdict", option="--verdict", metavar="TEXT", help="Only with this verdict."),
        Parameter(name="kind", option="--kind", metavar="TEXT", help="Only of this kind."),
        Parameter(name="label", option="--label", metavar="K=V", many=True, help="Only with this label."),
        Parameter(name="since", option="--since", metavar="TIME", help="Only from this time on (RFC 3339)."),
        Parameter(name="cause", option="--cause", metavar="TEXT", help="Only with a run that ended so."),
        Parameter(name="rule", option="--rule", metavar="TEXT", help="Only failed by an error of this rule."),
        Parameter(
            name="uid", option="--uid", metavar="N", type="whole", help="Only of this user (operators)."
        ),
        Parameter(
            name="limit",
            option="--limit",
            metavar="N",
            type="whole",
            least=1,
            most=500,
            default=50,
            help="How many.",
        ),
        Parameter(
            name="wide", option="--wide", default=False, help="Show all labels and all rules of its errors."
        ),
        JSON,
    ),
)
VERBS = (
    VALIDATE,
    LIST,
    CommandVerb(
        name="show",
        help="Show an attempt and its report, and the repair that it belongs to, attempt by attempt.",
        run="commands:show",
        parameters=(
            ID,
            Parameter(
                name="form", option="--form", metavar="NAME", help="Show it in a form that its kind has."
            ),
            Parameter(name="steps", option="--steps", default=False, help="Short for --form steps."),
            Parameter(
                name="code", option="--code", default=False, help="Print only the code that was submitted."
            ),
            JSON,
            FIELDS,
        ),
    ),
    CommandVerb(
        name="logs",
        help="Print what the code wrote; of an attempt that runs, as it is written.",
        run="commands:logs",
        parameters=(
            ID,
            Parameter(
                name="stream",
                option="--stream",
                metavar="stdout|stderr|both",
                default="both",
                help="Which output.",
            ),
        ),
    ),
    CommandVerb(
        name="events",
        help="Follow what happens to an attempt, up to its verdict; or to all attempts.",
        run="commands:events",
        parameters=(
            Parameter(
                name="attempt_id",
                metavar="[ID]",
                help="The attempt, by id, beginning or `last`; else all that you may see.",
            ),
            Parameter(
                name="follow",
                option="--follow",
                default=False,
                help="Follow all attempts; what is done without an ID.",
            ),
            JSON,
        ),
    ),
    CommandVerb(name="cancel", help="Stop an attempt.", run="commands:cancel", parameters=(ID,)),
    CommandVerb(
        name="replay",
        help="Run a finished attempt's submission again, and show what differs; 1 when something does.",
        run="commands:replay",
        parameters=(ID, JSON),
    ),
    CommandVerb(
        name="artifacts",
        help="List the files of an attempt's bundle, or fetch them.",
        run="commands:artifacts",
        parameters=(
            ID,
            Parameter(
                name="extract",
                option="--extract",
                metavar="DIR",
                type="path",
                help="Write them into a new or empty folder.",
            ),
            JSON,
        ),
    ),
    CommandVerb(
        name="doctor",
        help="Examine the daemon: engine, images, limits, canary, permissions.",
        run="upkeep:doctor",
        parameters=(JSON,),
    ),
    CommandVerb(
        name="gc",
        help="Remove finished attempts and bundles that are too old or too many; for operators.",
        run="upkeep:collect_garbage",
        parameters=(
            Parameter(
                name="dry_run", option="--dry-run", default=False, help="Only tell what would be removed."
            ),
            JSON,
        ),
    ),
    CommandVerb(
        name="backup",
        help="Copy the daemon's database and bundles while it runs; as root or the daemon's user.",
        run="upkeep:backup",
        parameters=(
            Parameter(
                name="target",
                metavar="DIR",
                type="path",
                required=True,
                help="Where to; an earlier copy is brought up to date.",
            ),
            Parameter(
                name="state_dir",
                option="--state-dir",
                metavar="DIR",
                type="path",
                help="The daemon's state directory; else it is asked.",
            ),
        ),
    ),
    CommandVerb(name="metrics", help="Print the daemon's metrics.", run="upkeep:metrics"),
    CommandVerb(
        name="top",
        help="Show what the daemon does at the moment: rates, queue, containers, running attempts.",
        run="upkeep:top",
        parameters=(
            Parameter(
                name="interval",
                option="--interval",
                metavar="S",
                type="number",
                least=0.2,
                default=2.0,
                help="Seconds between looks.",
            ),
            Parameter(
                name="once", option="--once", default=False, help="Look once, at the time since the start."
            ),
        ),
    ),
    CommandVerb(
        name="kinds",
        help="List the kinds that the daemon takes, or describe one: payload, options, stages, rules.",
        run="commands:kinds",
        parameters=(Parameter(name="kind", metavar="[KIND]", help="Which; else all are listed."), JSON),
    ),
    CommandVerb(
        name="check",
        help="Validate files, or all, as the project's .assay.toml says; for hooks and build servers.",
        run="check:check",
        parameters=(
            Parameter(
                name="files",
                metavar="[FILE]…",
                type="path",
                many=True,
                help="Files or folders; else all here.",
            ),
            Parameter(
                name="sarif",
                option="--sarif",
                metavar="FILE",
                type="path",
                help="Write the findings as SARIF; - is standard output.",
            ),
            Parameter(
                name="junit",
                option="--junit",
                metavar="FILE",
                type="path",
                help="Write a JUnit report; - is standard output.",
            ),
            Parameter(
                name="verbose",
                option="--verbose",
                default=False,
                help="Show reports of what is validated as well.",
            ),
        ),
    ),
    CommandVerb(
        name="lsp",
        help="Serve an editor as a language server: findings as diagnostics, certain edits as fixes.",
        run="lsp.serving:serve",
    ),
    CommandVerb(
        name="mcp",
        help="Serve coding agents by the Model Context Protocol, over standard input and output or HTTP.",
        run="mcp.serving:serve",
        parameters=(
            Parameter(
                name="http",
                option="--http",
                metavar="[HOST:]PORT",
                help="Serve HTTP on this loopback address instead; needs --token-file.",
            ),
            Parameter(
                name="token_file",
                option="--token-file",
                metavar="F",
                type="path",
                help="The token that requests have to carry; one is made where there is no such file.",
            ),
        ),
    ),
    CommandVerb(
        name="console",
        help="Serve pages for a browser on a loopback port, and print the link that logs in.",
        run="console:serve",
        parameters=(
            Parameter(
                name="port",
                option="--port",
                metavar="N",
                type="whole",
                least=0,
                most=65535,
                default=0,
                help="Which port of 127.0.0.1; 0 takes any that is free.",
            ),
            Parameter(
                name="link_file",
                option="--link-file",
                metavar="F",
                type="path",
                help="Write the link to this file instead, anew after each use; for services.",
            ),
        ),
    ),
    CommandVerb(
        name="compat",
        help="Serve clients of SandboxFusion, Piston and Judge0 on a loopback port or a socket.",
        run="compat:serve",
        parameters=(
            Parameter(
                name="listen",
                option="--listen",
                metavar="HOST:PORT",
                default="127.0.0.1:8080",
                help="Address to listen on: a loopback host with its port, or unix:PATH.",
            ),
            Parameter(
                name="at_once",
                option="--concurrency",
                metavar="N",
                type="whole",
                least=1,
                most=1000,
                default=64,
                help="Most programs to run at the same time; further requests wait.",
            ),
            Parameter(
                name="policies",
                option="--policy",
                metavar="LANGUAGE=NAME",
                many=True,
                help="Run a language under this profile instead of its usual one; may be repeated.",
            ),
        ),
    ),
    CommandVerb(name="version", help="Print the version.", run="commands:version"),
)

GROUPS: Mapping[str, tuple[str, str]] = {
    "batch": ("assayd_client.cli.batch_app:batch_app", "Validate many submissions, one per line of a file."),
    "library": (
        "assayd_client.cli.library:library_app",
        "Approve what is validated, and get it back by its name.",
    ),
    "repair": ("assayd_client.cli.repair:repair_app", "Have failed attempts fixed, and see what was tried."),
    "policy": ("assayd_client.cli.policy_app:policy_app", "Look at profiles, and check files of them."),
    "token": (
        "assayd_client.cli.token_app:token_app",
        "Make, list and revoke tokens of a gateway; for operators.",
    ),
    "node": (
        "assayd_client.cli.node_app:node_app",
        "Have a node of a cluster take no work, or take it again.",
    ),
    "images": ("assayd_client.cli.images_app:images_app", "Build and list the images of containers."),
}
"""What has commands of its own: its `typer.Typer`, and what it is for. Those of kinds are beside them."""

TYPED: Mapping[str, tuple[str, str]] = {
    "generate": (
        "assayd_client.cli.generate:generate_app",
        "Have code written from words, validated and repaired; show it, write it, approve it.",
    ),
    "review": (
        "assayd_client.cli.generate:generate_app",
        "Look at an attempt on screens: approve it, edit it, give a hint.",
    ),
    "nodes": ("assayd_client.cli.node_app:nodes_app", "List the nodes of a cluster; for operators."),
}
"""Verbs that people type and scripts do not repeat: typer's own, each with what it is for."""
