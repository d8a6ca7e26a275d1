"""Takes the pictures of docs/console.md: each page at two widths, in light and in dark.

    python tests/console_pictures.py SOCKET FOLDER

The daemon behind the socket should have something to show; attempts, a batch and a repair are looked for.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from assayd_client import PlainClient
from support.daemons.console import CHROMIUM, console_on

WIDTHS = {"wide": 1440, "narrow": 390}
MOST_TALL = 1800


def places(client: PlainClient) -> dict[str, str]:
    """Return the pages to take pictures of, with their addresses."""
    failed = client.attempts(verdict="failed", limit=50)["attempts"]
    ran = next((each for each in failed if each["cause"] not in {None, "completed"}), failed[0])
    found = {
        "now": "/now",
        "attempts": "/attempts",
        "attempt": f"/attempts/{ran['id']}",
        "batches": "/batches",
        "submit": "/submit?kind=extractor",
        "repairs": "/repairs",
        "trends": "/trends",
        "policies": "/policies",
        "policy": "/policies/data?url=https://example.org/&module=os",
        "library": "/library",
        "doctor": "/doctor",
    }
    if generations := client.generations(limit=1)["generations"]:
        found["generation"] = f"/generations/{generations[0]['id']}"
    batches, repairs = client.batches(limit=1)["batches"], client.repairs(limit=1)["repairs"]
    found["batch"] = f"/batches/{batches[0]['id']}"
    found["repair"] = f"/repairs/{repairs[0]['id']}"
    return found


def shrunk(picture: bytes, file: Path) -> None:
    """Write the upper part of a picture, with few colors."""
    with Image.open(io.BytesIO(picture)) as whole:
        upper = whole.convert("RGB").crop((0, 0, whole.width, min(whole.height, MOST_TALL)))
        upper.quantize(96, method=Image.Quantize.MEDIANCUT).save(file, optimize=True)


def main(path: str, folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with PlainClient(path) as client:
        wanted = places(client)
    with console_on(path) as console, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        for scheme in ("light", "dark"):
            for size, width in WIDTHS.items():
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": width, "height": 800 if width > 800 else 900}
                )
                page = context.new_page()
                page.goto(console.link)
                page.wait_for_url("**/now")
                for name, address in wanted.items():
                    page.goto(console.url + address)
                    if name == "doctor" and scheme == "light":
                        page.get_by_role("button", name="Examine").click()
                    page.wait_for_timeout(400)
                    shrunk(page.screenshot(full_page=True), folder / f"{name}-{size}-{scheme}.png")
                context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
