"""The message about a package that isn't installed."""

from __future__ import annotations

import pytest

from assayd_client.cli.options import missing_extra_error


@pytest.mark.parametrize(("daemon", "named"), [(object(), "'assayd[mcp]'"), (None, "'assayd-client[mcp]'")])
def test_extra_is_that_of_the_distribution_that_is_installed(daemon: object, named: str) -> None:
    said = missing_extra_error("mcp", "mcp", find=lambda _: daemon).message
    assert said == f"assay mcp needs the package `mcp`: pip install {named}"
