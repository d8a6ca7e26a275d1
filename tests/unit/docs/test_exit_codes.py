"""The exit codes of `assay`, according to the contract and the manual page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from assayd_client.cli import options

ROOT = Path(__file__).resolve().parents[3]
CONTRACT = ROOT / "docs/result-contract.md"
PAGES = runpy.run_path(str(ROOT / "deploy/manual_pages.py"))
CODES = {value for name, value in vars(options).items() if name.isupper() and isinstance(value, int)}


def test_contract_lists_every_exit_code() -> None:
    section = CONTRACT.read_text().partition("### Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)} == CODES


def test_manual_page_lists_every_exit_code() -> None:
    assert {code for code, _ in PAGES["EXITS"]} == CODES
