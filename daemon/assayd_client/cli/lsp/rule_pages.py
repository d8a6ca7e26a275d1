"""Writes a page for each rule of a kind. Editors open the page from the rule's id in a diagnostic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from assayd_client import Document
from assayd_client.cli.terminal import plain


def write(kind: Document, folder: Path) -> Mapping[str, str]:
    """Write the pages of a kind's rules into a folder, and return each page's address by rule."""
    below = folder / quote(kind["kind"], safe="")
    below.mkdir(exist_ok=True)
    addresses = {}
    for rule in kind["rules"]:
        page = below / f"{quote(rule['id'], safe='')}.md"
        page.write_text(plain(_text(rule, kind["kind"])), encoding="utf-8")
        addresses[rule["id"]] = page.as_uri()
    return addresses


def _text(rule: Document, kind: str) -> str:
    parts = [f"# {rule['title']}", f"`{rule['id']}`: {rule['severity']} of the kind `{kind}`", rule["help"]]
    if rule["profile_key"]:
        parts.append(f"The profile's key `{rule['profile_key']}` states this rule.")
    return "\n\n".join(filter(None, parts)) + "\n"
