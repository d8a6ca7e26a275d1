"""Says how much gathered code the static stages of extractors and adapters let pass, and what they refuse.

    python -m bench.real.python FILE.json

The file holds `extractors` and `adapters`: lists of `name` (repository:path[:function]) and `code` or `text`,
or of a whole package `files`. It is other people's code and stays out of the project; `sources_*.txt` list
where it comes from.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assayd.analysis.worker import run_stages
from assayd.kinds import registry as validators
from assayd.model.finding import Finding
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

_PATHS = ["/data/ACME/2024/Q1/report.csv"]
_MANIFEST = {
    "module_id": "a/b",
    "version": "1.0.0",
    "category": "a",
    "platform": "b",
    "entrypoint": "GivenAdapter",
    "capabilities": ["x"],
}
_ADAPTER = """

from assayd_adapter import register_adapter


@register_adapter
class GivenAdapter:
    def fetch_raw(self):
        return {}

    def transform(self, raw):
        return raw

    def get_schema(self):
        return {}
"""
_TEST = "import adapter\n\n\ndef test_it():\n    assert adapter.GivenAdapter().fetch_raw() == {}\n"


def refused(kind: str, payload: Mapping[str, object]) -> list[Finding]:
    """Return the errors of the static stages."""
    validator = validators.find_validator(kind)
    policy = load_policies([get_shared_data_path("policies")]).get(validator.default_policy)
    reports = run_stages(validator, validator.payload.model_validate(payload), policy)
    return [finding for report in reports for finding in report.findings if finding.is_error]


def wrapped_adapter(text: str, files: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return a module whose adapter is preceded by a text, beside other files."""
    texts = {**(files or {}), "adapter.py": text + _ADAPTER, "test_adapter.py": _TEST}
    return {"manifest": _MANIFEST, "files": texts}


def _payloads(
    gathered: Mapping[str, list[Mapping[str, Any]]],
) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    for item in gathered["extractors"]:
        yield "extractor", item["name"], {"code": item["code"], "sample_paths": _PATHS}
    for item in gathered["adapters"]:
        yield "module", item["name"], wrapped_adapter(item.get("text", ""), item.get("files"))


def main() -> None:
    """Judge what was gathered, and say what is refused."""
    gathered = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    counts: Counter[tuple[str, bool]] = Counter()
    for kind, name, payload in _payloads(gathered):
        found = refused(kind, payload)
        counts[kind, not found] += 1
        for finding in found[:3]:
            print(f"{kind} {name}: {finding.rule}: {finding.message}")
    for kind in ("extractor", "module"):
        passed = counts[kind, True]
        print(f"{kind}: {passed} of {passed + counts[kind, False]}")


if __name__ == "__main__":
    main()
