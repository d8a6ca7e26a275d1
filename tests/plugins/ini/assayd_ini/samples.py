"""Sample submissions with which the kind is tested."""

from __future__ import annotations

from assayd.model.submission import Sample

FIELDS = {"server.host": "str", "server.port": "int", "server.log": "str"}
GOOD = "[server]\nhost = example\nport = 8080\nlog = /var/log/%(host)s\n"


def _sample(name: str, text: str, *rules: str, runs: bool = True, **more: object) -> Sample:
    return Sample(
        name=name,
        payload={"text": text, "fields": FIELDS, **more},
        verdict="failed" if rules else "validated",
        rules=frozenset(rules),
        needs_container=runs,
    )


SAMPLES = (
    _sample("good", GOOD),
    _sample("no_value", GOOD.replace("port = 8080", "port 8080"), "ini.no_value", runs=False),
    _sample("twice", f"{GOOD}port = 1\n", "ini.twice", runs=False),
    _sample("type", GOOD.replace("8080", "many"), "ini.type"),
    _sample("missing", "[server]\nhost = a\nlog = b\n", "ini.missing"),
    _sample("undeclared", f"{GOOD}more = 1\n", "ini.undeclared", complete=True),
)
