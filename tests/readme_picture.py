"""Takes the picture of the README: what `assay validate` prints on a terminal.

    python tests/readme_picture.py SOCKET docs/report.svg

The daemon behind the socket runs as in `make serve`; the bundle's place is shown as an installation has it.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
SUBMISSION = "examples/extractor/fails_on_one_path.py"
SHOWN = (
    f"assay validate extractor {SUBMISSION} \\\n"
    "      --sample-path /data/CLIENT-ABC/2024/Q1/report.csv --sample-path /data/OTHER/2023/final/report.csv"
)
COLUMNS = 118
WITHOUT_FONTS = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""A picture that fetches nothing: pages show it with the reader's monospaced font."""


def printed(socket: str) -> str:
    """Run the command on a terminal; return everything that it printed."""
    arguments = [word for word in SHOWN.split() if word != "\\"]
    command = [str(Path(sys.executable).with_name("assay")), *arguments[1:]]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ASSAY_SOCKET": socket, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        chunks = []
        while chunk := _read(ours):
            chunks.append(chunk)
    os.close(ours)
    if process.returncode not in {0, 1}:
        sys.exit(f"assay ended with {process.returncode}")
    return b"".join(chunks).decode()


def final(output: str) -> str:
    """Return the final screen, with the bundle's path as in an installation."""
    begins = re.search(r"^.*?01[0-9A-Z]{24}", output, re.MULTILINE)
    report = output[begins.start() :] if begins else sys.exit("no report was printed")
    return re.sub(r"\S+/artifacts/", "/var/lib/assayd/artifacts/", report.replace("\r", ""))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports EIO when the other end of a terminal is closed
        return b""


def main(socket: str, picture: Path) -> None:
    """Write the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ ", style="bold") + Text(SHOWN))
    console.print(Text.from_ansi(final(printed(socket))))
    picture.write_text(
        console.export_svg(title="assay validate", code_format=WITHOUT_FONTS, unique_id="report")
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
