"""Implements `assay workflow …`, which checks, runs, shows, resumes and cancels workflows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.ids import resolve_workflow_id as find_workflow
from assayd_client.cli.options import EXIT_CODE_BY_VERDICT, FAILED, VALIDATED, Json, open_client
from assayd_client.cli.report import SubmissionOrigin, iter_finding_lines
from assayd_client.cli.submitting import cancel_on_interrupt, parse_settings, read_files, read_input
from assayd_client.cli.terminal import (
    StyledLine,
    build_line,
    format_count,
    get_stderr,
    get_stdout,
    plain,
    print_json,
    print_result,
)

workflow_app = typer.Typer(help="Check and run workflows of code nodes.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="Workflow: id, unique id prefix, or `last`.")]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="Read the workflow from this file, YAML or JSON; - is standard input."
    ),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="F.json",
        help="Read inputs from this file, which contains values by node and input name.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NODE.INPUT=V", help="Set an input; V is JSON or text (repeatable)."),
]
Repair = Annotated[
    str | None, typer.Option(metavar="PROVIDER", help="Use this provider to repair failed nodes.")
]
_STYLE_BY_VERDICT = {
    "validated": "green",
    "failed": "red",
    "error": "red",
    "cancelled": "yellow",
    "skipped": "dim",
    "waiting": "dim",
}


@workflow_app.command("check")
def check(
    context: typer.Context,
    file: File,
    input_file: Input = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Check a workflow's references, cycles, input sources and types, without running it."""
    text = _read_document(file)
    with open_client(context) as client:
        found = client.check_workflow(text, inputs=_read_inputs(input_file, settings))
    if as_json:
        print_json(found)
    else:
        _print_findings(found["findings"], file, text)
        errors = sum(finding["severity"] == "error" for finding in found["findings"])
        get_stdout().print(f"{format_count(len(found['nodes']), 'node')}, {format_count(errors, 'error')}")
    raise typer.Exit(VALIDATED if found["runnable"] else FAILED)


@workflow_app.command("run")
def run(
    context: typer.Context,
    file: File,
    input_file: Input = None,
    settings: Set = None,
    repair: Repair = None,
    as_json: Json = False,
) -> None:
    """Run a workflow, wait, and print its outputs as JSON."""
    text = _read_document(file)
    with open_client(context) as client:
        begun = client.start_workflow(
            text, inputs=_read_inputs(input_file, settings), repair=_build_repair_request(repair)
        )
        _wait_and_print(client, begun, file, text, as_json=as_json)


@workflow_app.command("resume")
def resume(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    workflow_id: Id,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Read the changed workflow from this file. Default: the same workflow."
        ),
    ] = None,
    input_file: Input = None,
    settings: Set = None,
    repair: Repair = None,
    as_json: Json = False,
) -> None:
    """Resume a finished workflow: run only nodes that have no result, or whose code or inputs changed."""
    text = None if file is None else _read_document(file)
    with open_client(context) as client:
        inputs = _read_inputs(input_file, settings) or None
        found = find_workflow(client, workflow_id)
        begun = client.resume_workflow(
            found, document=text, inputs=inputs, repair=_build_repair_request(repair)
        )
        _wait_and_print(client, begun, file, text, as_json=as_json)


@workflow_app.command("show")
def show(
    context: typer.Context,
    workflow: Annotated[
        str, typer.Argument(metavar="FILE|ID", help="Workflow file, or the id of a workflow run, or `last`.")
    ],
    as_json: Json = False,
) -> None:
    """Print a workflow's graph: its nodes in order, with their dependencies and outcomes."""
    path = Path(workflow)
    with open_client(context) as client:
        if path.is_file() or workflow == "-":
            found = client.check_workflow(_read_document(path))
        else:
            found = client.workflow(find_workflow(client, workflow))
    if as_json:
        print_json(found)
    else:
        get_stdout().lines(iter_graph_lines(found))


@workflow_app.command("list")
def list_workflows(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many workflows.")] = 20,
    as_json: Json = False,
) -> None:
    """List workflows, newest first."""
    with open_client(context) as client:
        page = client.workflows(limit=limit)
    heads = ("id", "name", "verdict", "nodes", "started")
    print_result(page, heads, map(_build_workflow_row, page["workflows"]), as_json=as_json)


@workflow_app.command("cancel")
def cancel(context: typer.Context, workflow_id: Id) -> None:
    """Cancel a workflow and its running attempts."""
    with open_client(context) as client:
        found = find_workflow(client, workflow_id)
        client.cancel_workflow(found)
    print(f"Cancelling {found}")


def iter_graph_lines(workflow: Document) -> Iterator[StyledLine]:
    """Yield a line for each node, below its dependencies and indented by its depth."""
    nodes = {node["id"]: node for node in workflow["nodes"]}
    depths = compute_node_depths({name: node["needs"] for name, node in nodes.items()})
    width = max((len(name) + 2 * depths[name] for name in nodes), default=0)
    for name in sorted(nodes, key=lambda name: depths[name]):
        node = nodes[name]
        state = node.get("state", "")
        said: list[str | tuple[str, str]] = [
            f"{'  ' * depths[name]}{name:<{width - 2 * depths[name]}}",
        ]
        if state:
            said.append((f"  {state:<9}", _STYLE_BY_VERDICT.get(state, "")))
        if node.get("attempt_id"):
            said.append((f"  {node['attempt_id']}{' (reused)' if node['reused'] else ''}", "dim"))
        if node["needs"]:
            said.append(f"  <- {', '.join(node['needs'])}")
        if node.get("detail"):
            said.append(f"  {plain(node['detail'])}")
        yield build_line(*said)
    for name, source in workflow["outputs"].items():
        yield build_line((f"output {plain(name)}", "bold"), f" <- {plain(source)}")


def compute_node_depths(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return each node's depth, the length of its longest dependency path, bounded in a cycle."""
    depths = dict.fromkeys(needs, 0)
    for _ in range(len(needs)):
        longer = {
            name: max((depths[one] + 1 for one in some if one in depths), default=0)
            for name, some in needs.items()
        }
        if longer == depths or max(longer.values(), default=0) >= len(needs):
            break
        depths = longer
    return depths


def _wait_and_print(
    client: PlainClient, workflow: Document, file: Path | None, text: str | None, *, as_json: bool
) -> None:
    """Wait for the end of a workflow, print the result, and exit."""
    _print_findings(workflow["findings"], file, text)
    ended = _follow_workflow(client, workflow, tell=not as_json)
    outputs = client.workflow_outputs(ended["id"])["outputs"] if ended["verdict"] == "validated" else None
    if as_json:
        print_json({**ended, "values": outputs})
    elif outputs is not None:
        print_json(outputs)
    else:
        get_stderr().print(f"assay: workflow {ended['id']}: {plain(ended['detail'] or ended['verdict'])}")
        get_stderr().print(f"Show it with: assay workflow show {ended['id']}")
    raise typer.Exit(EXIT_CODE_BY_VERDICT.get(ended["verdict"], FAILED))


def _follow_workflow(client: PlainClient, workflow: Document, *, tell: bool) -> Document:
    """Follow a workflow, print each finished node, and return the finished workflow.

    A keyboard interrupt cancels the workflow.
    """
    told: set[str] = set()
    with cancel_on_interrupt(client.cancel_workflow, workflow["id"], "workflow "):
        for event in client.workflow_events(workflow["id"]) if workflow["verdict"] is None else ():
            for node in event.body["nodes"]:
                if tell and node["finished_at"] is not None and node["id"] not in told:
                    told.add(node["id"])
                    state = node["state"]
                    detail = f"  {plain(node['detail'])}" if node["detail"] else ""
                    get_stderr().print(
                        build_line(f"{node['id']}  ", (state, _STYLE_BY_VERDICT.get(state, "")), detail)
                    )
    while (ended := client.workflow(workflow["id"], wait_s=60))["verdict"] is None:
        pass
    return ended


def _print_findings(findings: Sequence[Document], file: Path | None, text: str | None) -> None:
    name = "-" if file is None else str(file)
    origin = (
        SubmissionOrigin(paths={name: name}, texts={name: text.encode()})
        if text is not None
        else SubmissionOrigin()
    )
    screen = get_stderr()
    screen.lines(iter_finding_lines(findings, origin, screen.width))


def _read_document(file: Path) -> str:
    [(_, content)] = read_files([file]).values()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RequestError("file.unreadable", f"{file} isn't UTF-8 text") from error


def _read_inputs(input_file: Path | None, settings: Sequence[str] | None) -> dict[str, Any]:
    """Return input values by node and name. Values of `--set` override values of `--input`."""
    found: dict[str, Any] = {}
    for source in (read_input(input_file) or {}, parse_settings(settings or ())):
        for node, values in source.items():
            if not isinstance(values, dict):
                message = f"inputs of {node!r} must be an object; with --set, write NODE.INPUT=VALUE"
                raise RequestError("usage", message)
            found[node] = {**found.get(node, {}), **values}
    return found


def _build_repair_request(provider: str | None) -> dict[str, object] | None:
    return None if provider is None else {"provider": provider}


def _build_workflow_row(workflow: Document) -> tuple[str, ...]:
    nodes = workflow["nodes"]
    done = sum(node["state"] == "validated" for node in nodes)
    return (
        workflow["id"],
        plain(workflow["name"] or ""),
        workflow["verdict"] or workflow["state"],
        f"{done}/{len(nodes)}",
        workflow["created_at"],
    )
