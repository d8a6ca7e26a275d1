"""`assayd-gateway`: run the gateway until a signal stops it, or create or update the database's tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assayd import __version__
from assayd.program import disable_gc_during_imports, run_for_exit_code

if TYPE_CHECKING:
    from assayd.settings import Settings


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
        migrate_database(chosen.migrate, settings)
        return 0
    with disable_gc_during_imports():
        from assayd_cluster.gateway.program import run

    return run(settings)


def migrate_database(url_file: Path, settings: Settings) -> None:
    """Create or update the tables with the owner's account in `url_file`, before gateways start.

    Raises: ConfigError, StoreError.
    """
    import asyncio

    from assayd_cluster.settings import read_secret, require_encrypted_database

    url = read_secret(url_file, "--migrate")
    require_encrypted_database(url, "--migrate")
    asyncio.run(_run_migration(url, settings))


async def _run_migration(url: str, settings: Settings) -> None:
    from assayd.kinds import registry
    from assayd.store.jobs import open_job_store
    from assayd.wiring.wings import load_recorders
    from assayd_cluster.tables import ALL

    recorders = load_recorders(registry.load_validators(settings.validators))
    async with open_job_store(settings.state_dir, url, recorders) as jobs:
        await jobs.access.create_tables(ALL)


if __name__ == "__main__":
    sys.exit(main())
