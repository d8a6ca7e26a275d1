"""Creates or updates the tables of a cluster before gateways start, with the account of their owner."""

from __future__ import annotations

import asyncio
from pathlib import Path

from assayd.kinds import registry
from assayd.settings import Settings
from assayd.store.jobs import open_job_store
from assayd.wiring.wings import load_recorders
from assayd_cluster.encryption import require_encrypted_database
from assayd_cluster.settings import read_secret
from assayd_cluster.tables import ALL


def migrate_database(url_file: Path, settings: Settings) -> None:
    """Migrate the database to this version with the owner's account in `url_file`.

    Raises: ConfigError, StoreError.
    """
    url = read_secret(url_file, "--migrate")
    require_encrypted_database(url, "--migrate")
    asyncio.run(_run_migration(url, settings))


async def _run_migration(url: str, settings: Settings) -> None:
    recorders = load_recorders(registry.load_validators(settings.validators))
    async with open_job_store(settings.state_dir, url, recorders) as jobs:
        await jobs.access.create_tables(ALL)
