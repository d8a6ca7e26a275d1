"""The rules that a repair offers where no code came about, in words."""

from __future__ import annotations

from collections.abc import Iterator

from assayd_client import Document


def described(repair_id: str, fallback: Document) -> Iterator[str]:
    """Return the lines that tell of an offer: why, the rules, what they give, and how to take them."""
    applied = fallback["applied"]
    yield ""
    yield f"Rules instead of code ({fallback['trigger']}): {fallback['reason']}"
    yield ""
    yield from (f"   {line}" for line in fallback["rules"].splitlines())
    yield ""
    yield f"They give every field for {applied['complete']} of {applied['paths']} sample paths:"
    for shown in applied["shown"]:
        fields = ", ".join(f"{name}={value!r}" for name, value in shown["fields"].items())
        missing = "; nothing for " + ", ".join(map(ascii, shown["missing"])) if shown["missing"] else ""
        yield f"   {shown['path']!r}: {fields}{missing}"
    if fallback["accepted_at"] is None:
        yield f"Take them: assay repair accept {repair_id}"
    else:
        yield f"Taken at {fallback['accepted_at']}"
