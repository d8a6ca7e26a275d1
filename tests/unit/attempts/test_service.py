from __future__ import annotations

import shutil
from pathlib import Path

from assayd.attempts.conclusion import NOTHING
from support.small_daemon import small_daemon


async def test_attempt_whose_bundle_is_gone_is_shown_with_its_verdict(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        attempt = await daemon.finished(await daemon.accept("a"))
        await daemon.service.documents(attempt)  # what is kept in memory is given away
        (bundle,) = (tmp_path / "artifacts").rglob(f"*{attempt.id}")
        for folder in (bundle, *bundle.rglob("*")):
            if folder.is_dir():
                folder.chmod(0o700)
        shutil.rmtree(bundle)

        assert await daemon.service.documents(attempt) == (NOTHING, NOTHING)
        assert (await daemon.service.get(attempt.id)) == attempt
