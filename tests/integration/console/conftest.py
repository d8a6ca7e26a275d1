from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from support.daemons.console import CHROMIUM, Console, console_on
from support.daemons.server import Served, serving_small


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving_small(tmp_path_factory.mktemp("daemon")) as served:
        yield served


@pytest.fixture(scope="module")
def console(daemon: Served) -> Iterator[Console]:
    with console_on(daemon.path) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def window(browser: Browser, console: Console) -> Iterator[Page]:
    """Return a browser window that has signed in through the link."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    opened.goto(console.link)
    opened.wait_for_url("**/now")
    yield opened
    context.close()
