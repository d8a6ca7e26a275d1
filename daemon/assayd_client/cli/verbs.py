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
        Parameter(name="state", option="--state", metavar="TEXT", help="Show only attempts in this state."),
        Parameter(
            name="verdict", option="--verdict", metavar="TEXT", help="Show only attempts with this verdict."
        ),
        Parameter(name="kind", option="--kind", metavar="TEXT", help="Show only attempts of this kind."),
        Parameter(
            name="label",
            option="--label",
            metavar="K=V",
            many=True,
            help="Show only attempts with this label.",
        ),
        Parameter(
            name="since",
            option="--since",
            metavar="TIME",
            help="Show only attempts since this time (RFC 3339).",
        ),
        Parameter(name="cause", option="--cause", metavar="TEXT", help="Show only attempts with this cause."),
        Parameter(
            name="rule",
            option="--rule",
            metavar="TEXT",
            help="Show only attempts with an error of this rule.",
        ),
        Parameter(
            name="uid",
            option="--uid",
            metavar="N",
            type="whole",
            help="Show only attempts of this user (operators).",
        ),
        Parameter(
            name="limit",
            option="--limit",
            metavar="N",
            type="whole",
            least=1,
            most=500,
            default=50,
            help="Show at most this many attempts.",
        ),
        Parameter(
            name="wide", option="--wide", default=False, help="Show all labels and all rules of errors."
        ),
        JSON,
    ),
)
VERBS = (
    VALIDATE,
    LIST,
    CommandVerb(
        name="show",
        help="Show an attempt, its report, and the chain of its repair.",
        run="commands:show",
        parameters=(
            ID,
            Parameter(
                name="form",
                option="--form",
                metavar="NAME",
                help="Print the report in another form of its kind.",
            ),
            Parameter(
                name="steps",
                option="--steps",
                default=False,
                help="Print the steps: the same as --form steps.",
            ),
            Parameter(name="code", option="--code", default=False, help="Print only the submitted code."),
            JSON,
            FIELDS,
        ),
    ),
    CommandVerb(
        name="logs",
        help="Print the code's output; follow it while the attempt runs.",
        run="commands:logs",
        parameters=(
            ID,
            Parameter(
                name="stream",
                option="--stream",
                metavar="stdout|stderr|both",
                default="both",
                help="Choose the output stream to print.",
            ),
        ),
    ),
    CommandVerb(
        name="events",
        help="Follow the events of one attempt until its verdict, or of all attempts.",
        run="commands:events",
        parameters=(
            Parameter(
                name="attempt_id",
                metavar="[ID]",
                help="Attempt: id, unique beginning, or `last`. Default: all that you may see.",
            ),
            Parameter(
                name="follow",
                option="--follow",
                default=False,
                help="Follow all attempts; the default without an ID.",
            ),
            JSON,
        ),
    ),
    CommandVerb(name="cancel", help="Cancel an attempt.", run="commands:cancel", parameters=(ID,)),
    CommandVerb(
        name="replay",
        help="Run a finished attempt again and show differences; exit 1 if there are any.",
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
                help="Write the files into a new or empty folder.",
            ),
            JSON,
        ),
    ),
    CommandVerb(
        name="doctor",
        help="Examine the daemon: engine, images, limits, isolation, permissions.",
        run="upkeep:doctor",
        parameters=(JSON,),
    ),
    CommandVerb(
        name="gc",
        help="Delete finished attempts and bundles beyond the retention limits (operators).",
        run="upkeep:collect_garbage",
        parameters=(
            Parameter(
                name="dry_run", option="--dry-run", default=False, help="Only list what would be deleted."
            ),
            JSON,
        ),
    ),
    CommandVerb(
        name="backup",
        help="Back up the database and bundles of a running daemon, as root or its user.",
        run="upkeep:backup",
        parameters=(
            Parameter(
                name="target",
                metavar="DIR",
                type="path",
                required=True,
                help="Target folder; an existing backup is updated.",
            ),
            Parameter(
                name="state_dir",
                option="--state-dir",
                metavar="DIR",
                type="path",
                help="State directory of the daemon. Default: ask the daemon.",
            ),
        ),
    ),
    CommandVerb(name="metrics", help="Print the daemon's metrics.", run="upkeep:metrics"),
    CommandVerb(
        name="top",
        help="Show the daemon's activity: rates, queue, containers, running attempts.",
        run="upkeep:top",
        parameters=(
            Parameter(
                name="interval",
                option="--interval",
                metavar="S",
                type="number",
                least=0.2,
                default=2.0,
                help="Refresh after this many seconds.",
            ),
            Parameter(
                name="once",
                option="--once",
                default=False,
                help="Print one snapshot and exit; rates are since startup.",
            ),
        ),
    ),
    CommandVerb(
        name="kinds",
        help="List the kinds of submissions, or describe one: payload, options, stages, rules.",
        run="commands:kinds",
        parameters=(
            Parameter(name="kind", metavar="[KIND]", help="Kind to describe. Default: list all kinds."),
            JSON,
        ),
    ),
    CommandVerb(
        name="check",
        help="Validate a project's files as declared in its .assay.toml, for hooks and CI.",
        run="check:check",
        parameters=(
            Parameter(
                name="files",
                metavar="[FILE]…",
                type="path",
                many=True,
                help="Files or folders to validate. Default: all files below this folder.",
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
                help="Also show the reports of validated files.",
            ),
        ),
    ),
    CommandVerb(
        name="lsp",
        help="Run a language server for editors: diagnostics and quick fixes.",
        run="lsp.serving:serve",
    ),
    CommandVerb(
        name="mcp",
        help="Run an MCP server for coding agents, over standard input and output or HTTP.",
        run="mcp.serving:serve",
        parameters=(
            Parameter(
                name="http",
                option="--http",
                metavar="[HOST:]PORT",
                help="Serve HTTP on this loopback address instead; requires --token-file.",
            ),
            Parameter(
                name="token_file",
                option="--token-file",
                metavar="F",
                type="path",
                help="Read the required token from this file; created if it doesn't exist.",
            ),
        ),
    ),
    CommandVerb(
        name="console",
        help="Serve the web console on a loopback port, and print its login link.",
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
                help="Listen on this port of 127.0.0.1; 0: any free port.",
            ),
            Parameter(
                name="link_file",
                option="--link-file",
                metavar="F",
                type="path",
                help="Write the link to this file, again after each use (for services).",
            ),
        ),
    ),
    CommandVerb(name="version", help="Print the versions of client and daemon.", run="commands:version"),
)

GROUPS: Mapping[str, tuple[str, str]] = {
    "batch": ("assayd_client.cli.batch_app:batch_app", "Validate many submissions, one per line of a file."),
    "library": (
        "assayd_client.cli.library:library_app",
        "Approve validated code under a name, and fetch it again.",
    ),
    "repair": ("assayd_client.cli.repair:repair_app", "Repair failed attempts, and show the fixes."),
    "policy": ("assayd_client.cli.policy_app:policy_app", "Show profiles, and check profile files."),
    "token": (
        "assayd_client.cli.token_app:token_app",
        "Create, list and revoke tokens of a gateway (operators).",
    ),
    "node": (
        "assayd_client.cli.node_app:node_app",
        "Drain a node of a cluster, or resume it.",
    ),
    "images": ("assayd_client.cli.images_app:images_app", "Build and list the images of containers."),
}
"""Groups of commands: the `typer.Typer` and the help of each. Kinds add more."""

TYPED: Mapping[str, tuple[str, str]] = {
    "generate": (
        "assayd_client.cli.generate:generate_app",
        "Generate code from words, validate and repair it, and approve it.",
    ),
    "review": (
        "assayd_client.cli.generate:generate_app",
        "Review an attempt on screens: approve it, edit it, give a hint.",
    ),
    "nodes": ("assayd_client.cli.node_app:nodes_app", "List the nodes of a cluster (operators)."),
}
"""Verbs that people type and scripts don't repeat: typer's own, each with its help."""
