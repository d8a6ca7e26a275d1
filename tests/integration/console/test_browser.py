"""The console in a real browser: signing in, submitting, following, and a malicious submission."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from assayd_client import PlainClient
from support.daemons.console import Console, needs_browser
from support.daemons.server import Served
from support.daemons.small_daemon import submission

pytestmark = needs_browser

HOSTILE = (
    "bad = '</textarea></code></pre><script>window.harmed = 1</script>'\n"
    "#<img src=x onerror=window.harmed=2>\n"
    "# \x1b[2J\u202egnp.exe\u200b \x00\x9b \"'><svg onload=alert(1)>\n" + "x" * 300_000 + "\n"
)
PAGES = (
    "/now",
    "/attempts",
    "/attempts?verdict=failed",
    "/batches",
    "/repairs",
    "/submit",
    "/generate",
    "/trends",
    "/policies",
    "/policies/extractor?url=https://example.org&module=json",
    "/library",
    "/doctor",
    "/nowhere",
)


def submit(window: Page, console: Console, code: str, intent: str = "") -> None:
    window.goto(f"{console.url}/submit?kind=small")
    window.fill("[name='payload.code']", code)
    window.evaluate("document.querySelector('details').open = true")
    window.fill("[name=intent]", intent)
    window.click("button.main")
    window.wait_for_url("**/attempts/01*")


def test_link_logs_in_once_and_leaves_no_token_in_the_address(
    window: Page, browser: Browser, console: Console
) -> None:
    assert "#" not in window.url
    link = console.link
    with browser.new_context() as first, browser.new_context() as second:
        one, other = first.new_page(), second.new_page()
        one.goto(link)
        expect(one.get_by_role("heading", name="Now")).to_be_visible()
        other.goto(link)
        expect(other.get_by_role("status")).to_contain_text("already used")


def test_attempt_is_followed_from_the_form_to_its_verdict(
    window: Page, console: Console, daemon: Served
) -> None:
    daemon.call(daemon.daemon.runs.open.clear)
    submit(window, console, "run = 1")
    expect(window.get_by_role("heading", name="Under way")).to_be_visible()

    daemon.call(daemon.daemon.runs.open.set)

    expect(window.locator(".verdict .badge")).to_have_text("validated")
    expect(window.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(window.get_by_text("created 20")).to_have_count(1)
    expect(window.get_by_role("heading", name="Files in the bundle")).to_be_visible()


def test_hostile_submission_is_shown_and_does_nothing(window: Page, console: Console) -> None:
    said: list[str] = []
    window.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    window.on("console", lambda message: said.append(message.text))
    submit(window, console, HOSTILE, intent="<b>\u202etxt</b><script>window.harmed = 3</script>")

    expect(window.locator(".verdict .badge")).to_have_text("failed")
    assert window.evaluate("window.harmed") is None
    assert said == []
    shown = window.locator(".source").inner_text()
    assert "<script>window.harmed = 1</script>" in shown
    assert "\\x1b[2J\\x202egnp.exe\\x200b" in shown
    assert "more characters" in shown
    assert not set(shown) & set("\x1b\u202e\u200b\x00\x9b")
    assert window.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_list_filters_by_the_address_and_moves_by_keys(window: Page, console: Console) -> None:
    submit(window, console, "bad = 1")
    window.goto(f"{console.url}/attempts")
    window.select_option("[name=verdict]", "failed")
    window.click(".filters button")
    window.wait_for_url("**verdict=failed*")
    assert set(window.locator("tbody .badge").all_inner_texts()) == {"failed"}

    window.keyboard.press("j")
    window.keyboard.press("Enter")

    expect(window.get_by_role("heading", name="Attempt 01")).to_be_visible()


def test_click_in_a_row_opens_it_and_escape_leaves_a_field(window: Page, console: Console) -> None:
    submit(window, console, "bad = 3")
    window.goto(f"{console.url}/attempts")
    window.keyboard.press("/")
    window.keyboard.press("Escape")
    assert window.evaluate("document.activeElement.tagName") == "BODY"

    window.locator("tbody tr").first.locator("td").nth(2).click()
    expect(window.get_by_role("heading", name="Attempt 01")).to_be_visible()
    window.go_back()

    expect(window.locator("tbody tr a").first).to_be_focused()


def test_edit_page_keeps_its_button_in_view(window: Page, console: Console) -> None:
    submit(window, console, "bad = 8")
    window.get_by_role("link", name="Edit and submit again").click()

    expect(window.get_by_role("heading", name="Edit and submit again")).to_be_visible()
    expect(window.locator(".finding code").first).to_have_text("small.bad")
    expect(window.get_by_role("button", name="Submit")).to_be_in_viewport(ratio=1)


def test_batch_says_why_its_items_fail_and_leads_to_them(
    window: Page, console: Console, daemon: Served
) -> None:
    codes = ["x = 1", "bad = 1", "x = 2", "x = bad"]
    lines = [json.dumps(submission(code)).encode() + b"\n" for code in codes] + [b"{}\n"]
    with PlainClient(daemon.path) as client:
        client.send_batch(lines, name="planted")
    window.goto(f"{console.url}/batches")
    window.get_by_role("link", name="planted").click()

    expect(window.locator(".badge.finished")).to_be_visible()
    why = window.locator("section", has=window.get_by_role("heading", name="Why items fail"))
    expect(why.locator("tbody tr")).to_have_count(1)
    expect(why.locator("tbody tr")).to_contain_text("small.bad")
    rule = why.locator(".rule code")
    rule.evaluate("code => { code.textContent = 'import.not_allowed_anywhere'.repeat(2); }")
    why.locator(".reason").evaluate("cell => { cell.textContent = 'a long message '.repeat(99); }")
    assert rule.evaluate("code => code.getClientRects().length") == 1
    with window.expect_download() as download:
        window.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [row["verdict"] for row in rows] == ["validated", "failed", "validated", "failed", "error"]
    window.locator("svg a").nth(1).click()
    expect(window.locator(".verdict .badge")).to_have_text("failed")


def test_failed_lines_of_a_batch_run_again_as_a_new_batch(
    window: Page, console: Console, daemon: Served
) -> None:
    lines = [json.dumps(submission(code)).encode() + b"\n" for code in ("x = 5", "bad = 5", "y = bad")]
    with PlainClient(daemon.path) as client:
        batch = client.send_batch([*lines, b"{}\n"], name="lossy")
        for _ in client.batch_events(batch["id"]):
            pass
        window.goto(f"{console.url}/batches/{batch['id']}")
        window.get_by_role("button", name="Run failed lines again").click()
        expect(window.get_by_role("heading", name="Batch lossy-20")).to_be_visible()
        expect(window.locator(".badge.finished")).to_be_visible()
        again = client.batch(window.url.rpartition("/")[2])

    assert (again["counts"]["total"], again["counts"]["failed"]) == (2, 2)


def test_batch_page_gets_its_final_actions_when_the_batch_ends(
    window: Page, console: Console, daemon: Served
) -> None:
    lines = [json.dumps(submission(code)).encode() + b"\n" for code in ("run = 6", "bad = 6")]
    daemon.call(daemon.daemon.runs.open.clear)
    with PlainClient(daemon.path) as client:
        batch = client.send_batch(lines, name="watched")
    window.goto(f"{console.url}/batches/{batch['id']}")
    expect(window.get_by_role("button", name="Cancel")).to_be_visible()

    daemon.call(daemon.daemon.runs.open.set)

    expect(window.get_by_role("button", name="Run failed lines again")).to_be_visible()
    expect(window.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(window.locator(".facts").first).to_contain_text("took")
    expect(window.get_by_role("heading", name="Why items fail")).to_be_visible()


def test_batch_that_was_cancelled_goes_on_with_its_file(
    window: Page, console: Console, daemon: Served, tmp_path: Path
) -> None:
    lines = [json.dumps(submission(f"run = {number}")).encode() + b"\n" for number in range(3)]
    (tmp_path / "lines.jsonl").write_bytes(b"".join(lines))
    with PlainClient(daemon.path) as client:
        daemon.call(daemon.daemon.runs.open.clear)
        batch = client.send_batch(lines, name="broken-off")
        client.cancel_batch(batch["id"])
        daemon.call(daemon.daemon.runs.open.set)
    window.goto(f"{console.url}/batches/{batch['id']}")
    expect(window.locator(".badge.cancelled").first).to_be_visible()

    window.locator("[type=file]").set_input_files(tmp_path / "lines.jsonl")
    window.get_by_role("button", name="Resume").click()

    expect(window.locator(".badge.finished")).to_be_visible()
    expect(window.locator("[type=file]")).to_have_count(0)


def test_picture_is_kept_as_pixels(window: Page, console: Console) -> None:
    submit(window, console, "bad = 2")
    window.goto(f"{console.url}/trends")

    with window.expect_download() as download:
        window.get_by_text("Export Verdicts").click()
        window.get_by_role("button", name="PNG of Verdicts").click()

    assert download.value.suggested_filename == "verdicts.png"
    content = download.value.path().read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(content[16:20]) == 2 * 480


def test_no_page_has_a_serious_fault_for_those_who_cannot_see_it(
    window: Page, console: Console, daemon: Served
) -> None:
    found = {}
    submit(window, console, "bad = 9")
    with PlainClient(daemon.path) as client:
        client.send_batch([json.dumps(submission("bad = 10")).encode() + b"\n"], name="seen")
    places = [*PAGES]
    for path in ("/attempts?verdict=failed", "/batches"):
        window.goto(console.url + path)
        places.append(window.locator("tbody a").first.get_attribute("href") or "")
    for path in places:
        window.goto(console.url + path)
        window.wait_for_load_state("load")
        violations = Axe().run(window).response["violations"]
        found[path] = [each["id"] for each in violations if each["impact"] in {"serious", "critical"}]
        for width in (1280, 400):
            window.set_viewport_size({"width": width, "height": 800})
            assert window.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)

    assert {path: ids for path, ids in found.items() if ids} == {}
