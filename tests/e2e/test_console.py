"""The console's pages of repairs and generations in a browser, with a real daemon and a scripted provider."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from assayd_client import Document, PlainClient
from support.daemons.chosen import new_daemon
from support.daemons.console import CHROMIUM, Console, console_on, needs_browser
from support.daemons.daemon_process import DaemonProcess

pytestmark = [pytest.mark.engine, needs_browser]

PLAYER = """
import json, sys
from pathlib import Path

folder, asked = Path(sys.argv[1]), json.load(sys.stdin)
left = json.loads((folder / "play.json").read_text())
(folder / "play.json").write_text(json.dumps(left[1:]))
(folder / "hint.txt").write_text(asked["prompt"]["user"])
print(json.dumps({"code": left[0], "reason": "As asked. <script>alert(1)</script>"}))
"""
WRONG, RIGHT, OTHER = "result: int = 1 / 0\n", "result: int = 3\n", "result: int = 4\n"


class Stage:
    """A daemon with a scripted provider, and a browser on its console."""

    def __init__(self, daemon: DaemonProcess, console: Console, window: Page) -> None:
        self.daemon, self.console, self.window = daemon, console, window

    def play(self, *answers: str) -> None:
        """Set the provider's answers."""
        (self.daemon.home / "play.json").write_text(json.dumps(answers))

    @property
    def prompt(self) -> str:
        """Return the provider's last prompt."""
        return (self.daemon.home / "hint.txt").read_text()

    def faults(self) -> list[str]:
        """Return the serious faults that axe finds on the page."""
        found = Axe().run(self.window).response["violations"]
        return [each["id"] for each in found if each["impact"] in {"serious", "critical"}]


@pytest.fixture(scope="module")
def stage(one_engine: str) -> Iterator[Stage]:
    daemon = new_daemon(one_engine, settings={"POOL__DEFAULT_TARGET": "1"})
    (daemon.home / "player.py").write_text(PLAYER)
    argv = [sys.executable, str(daemon.home / "player.py"), str(daemon.home)]
    daemon.settings["REPAIR__PROVIDERS"] = json.dumps({"played": {"type": "command", "argv": argv}})
    expect.set_options(timeout=60_000)  # repairs take as long as the machine is busy
    try:
        daemon.start()
        with console_on(daemon.socket) as console, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
            window = browser.new_page()
            window.goto(console.link)
            window.wait_for_url("**/now")
            yield Stage(daemon, console, window)
            browser.close()
    finally:
        expect.set_options(timeout=5_000)
        daemon.dispose()


def generated(client: PlainClient) -> Document:
    made = client.generate(kind="code", intent="three", context={})
    for _ in client.generation_events(made["id"]):
        pass
    return made


def test_generation_is_looked_at_approved_and_goes_on_with_a_hint(stage: Stage) -> None:
    window = stage.window
    stage.play(WRONG, RIGHT, OTHER)
    with stage.daemon.client() as client:
        made = generated(client)

    window.goto(f"{stage.console.url}/repairs")
    window.locator(f"a[href='/generations/{made['id']}']").first.click()
    expect(window.locator(".verdict .badge")).to_have_text("validated")
    expect(window.locator(".timeline > li")).to_have_count(2)
    expect(window.locator(".dline.added")).to_contain_text("result: int = 3")
    assert stage.faults() == []

    window.get_by_role("link", name="prompt and answer 2").click()
    expect(window.locator("main")).to_contain_text("division by zero")
    window.go_back()

    window.fill("[name=hint]", "one more, please")
    window.get_by_role("button", name="Try again").click()
    expect(window.locator(".timeline > li")).to_have_count(3)
    expect(window.locator(".verdict .badge")).to_have_text("validated")
    assert "one more, please" in stage.prompt

    window.fill("[name=name]", "four")
    window.get_by_role("button", name="Approve").click()
    window.wait_for_url("**/library/four")
    expect(window.locator("main")).to_contain_text("result: int = 4")
    with stage.daemon.client() as client:
        assert client.library_entry("four", 1)["submission"]["payload"]["code"] == OTHER


def test_repair_is_begun_followed_and_tried_again_with_a_hint(stage: Stage) -> None:
    window = stage.window
    stage.play("result: int = 2 / 0\n", "result: int = [][1]\n", "result: int = {}['a']\n", RIGHT)
    with stage.daemon.client() as client:
        failed = client.submit({"kind": "code", "payload": {"code": WRONG}}, wait_s=60)

    window.goto(f"{stage.console.url}/attempts/{failed['id']}")
    window.fill("[name=provider]", "played")
    window.get_by_role("button", name="Repair").click()
    window.wait_for_url("**/repairs/*")
    expect(window.locator(".verdict .badge")).not_to_have_text("running")
    assert stage.faults() == []

    window.fill("[name=hint]", "it is three")
    window.get_by_role("button", name="Repair again").click()
    expect(window.locator(".verdict .badge")).to_have_text("repaired")

    assert "it is three" in stage.prompt
    expect(window.locator("main")).to_contain_text("Hint: it is three")
    expect(window.locator(".timeline")).to_contain_text("<script>alert(1)</script>")
