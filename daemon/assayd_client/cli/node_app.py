"""`assay nodes` and `assay node`: the hosts of a cluster, as operators see and stop them."""

from __future__ import annotations

from typing import Annotated

import typer

from assayd_client import Document
from assayd_client.cli.gateway import gateway_client

node_app = typer.Typer(help="Drain or resume a node of a cluster; for operators.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Node name, as in `assay nodes`.")]
HEADS = ("", "node", "in hand", "version", "engine", "beaten", "why")


def list_nodes(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List the nodes of a cluster (operators)."""
    from assayd_client.cli.listing import print_table
    from assayd_client.cli.terminal import out, print_json

    with gateway_client(context) as client:
        found = client.nodes()["nodes"]
    if as_json:
        print_json(found)
    else:
        print_table(out(), HEADS, [_row(node) for node in found])


@node_app.command("drain")
def drain(context: typer.Context, name: Name) -> None:
    """Have a node take no further work; what it has in hand goes on."""
    with gateway_client(context) as client:
        node = client.drain_node(name)
    print(f"{node['name']}: takes no further work, has {node['in_hand']} in hand")


@node_app.command("resume")
def resume(context: typer.Context, name: Name) -> None:
    """Have a node that was drained take work again."""
    with gateway_client(context) as client:
        node = client.resume_node(name)
    print(f"{node['name']}: {node['state'].replace('_', ' ')}{': ' if node['why'] else ''}{node['why']}")


def _row(node: Document) -> list[str]:
    return [
        node["state"].replace("_", " "),
        node["name"],
        f"{node['in_hand']} of {node['capacity']}",
        node["version"],
        node["engine"],
        f"{node['silent_s']:.0f} s ago",
        node["why"],
    ]
