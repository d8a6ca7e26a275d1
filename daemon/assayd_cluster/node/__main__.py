"""`assayd-node`: run the node until a signal stops it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from assayd import __version__
from assayd.program import disable_gc_during_imports, run_for_exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the node until a signal stops it, and return the exit code."""
    chosen = _build_parser().parse_args(arguments)
    return run_for_exit_code("assayd-node", lambda: _run_node(chosen))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="assayd-node",
        description="Take attempts from a cluster's gateways, and let this host's daemon run them.",
        epilog="Settings: /etc/assayd/node.toml, or the one in ASSAYD_NODE_CONFIG; then ASSAYD_NODE_*.",
    )
    parser.add_argument("--version", action="version", version=f"assayd-node {__version__}")
    parser.add_argument("--print-config", action="store_true", help="show the settings and their origins")
    return parser


def _run_node(chosen: argparse.Namespace) -> int:
    from assayd.settings import list_effective_settings
    from assayd_cluster.settings import load_node_settings

    settings = load_node_settings()
    if chosen.print_config:
        print(
            "\n".join(
                f"{row.name} = {row.value}\t# {row.source}" for row in list_effective_settings(settings)
            )
        )
        return 0
    with disable_gc_during_imports():
        from assayd_cluster.node.worker import run

    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
