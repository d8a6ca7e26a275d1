"""`assayd-gateway`: run the gateway until a signal stops it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assayd import __version__
from assayd.program import disable_gc_during_imports, run_for_exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gateway until a signal stops it, and return the exit code."""
    chosen = _build_parser().parse_args(arguments)
    return run_for_exit_code("assayd-gateway", lambda: _run_gateway(chosen))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="assayd-gateway",
        description="Accept submissions for a cluster, let its nodes run them, and keep the results.",
        epilog="Settings: /etc/assayd/gateway.toml, or the file named by ASSAYD_CONFIG; then ASSAYD_*.",
    )
    parser.add_argument("--version", action="version", version=f"assayd-gateway {__version__}")
    parser.add_argument("--print-config", action="store_true", help="show the settings and their origins")
    parser.add_argument(
        "--migrate",
        metavar="FILE",
        type=Path,
        help="create or update the tables with the account whose database URL is in FILE, then exit",
    )
    return parser


def _run_gateway(chosen: argparse.Namespace) -> int:
    from assayd.settings import list_effective_settings
    from assayd_cluster.settings import load_gateway_settings

    settings = load_gateway_settings()
    if chosen.print_config:
        print(
            "\n".join(
                f"{row.name} = {row.value}\t# {row.source}" for row in list_effective_settings(settings)
            )
        )
        return 0
    if chosen.migrate is not None:
        from assayd_cluster.schema import migrate_database

        migrate_database(chosen.migrate, settings)
        return 0
    with disable_gc_during_imports():
        from assayd_cluster.gateway.program import run

    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
