"""Defines the samples for the kind's self-test."""

from __future__ import annotations

from collections.abc import Sequence

from assayd.model.submission import Sample


def _build_sample(name: str, *steps: tuple[str, str], rules: Sequence[str] = (), **more: object) -> Sample:
    """Return a sample. Without rules, the sample is valid; with rules for runs, it needs a container."""
    payload = {
        "steps": [
            {"name": f"step {n}", "type": kind, "content": text} for n, (kind, text) in enumerate(steps, 1)
        ],
        **more,
    }
    runs = all(rule.startswith(("step.", "sandbox.", "database.", "outputs.")) for rule in rules)
    verdict = "failed" if rules else "validated"
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_CLEAN = (
    "set -euo pipefail\nawk -F, 'NR == 1 || $2 > 0' data/sales.csv > tmp/clean.csv\nwc -l < tmp/clean.csv\n"
)

_LOAD = (
    "CREATE TABLE IF NOT EXISTS sales (region TEXT NOT NULL, amount REAL NOT NULL);\n"
    'INSERT INTO sales SELECT region, amount FROM "tmp/clean.csv";\n'
    "SELECT region, sum(amount) AS total FROM sales GROUP BY region ORDER BY region;\n"
)

_KEEP = "cat logs/02_step_2.out > data/totals.tsv\n"

_SALES = {"data/sales.csv": "region,amount\nnorth,10\nsouth,-1\nnorth,5\n"}

_BROKEN = {"schema_sql": "CREATE TABEL t"}

_ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

SAMPLES = (
    _build_sample("good", ("bash", _CLEAN), ("sql", _LOAD), ("bash", _KEEP), files=_SALES),
    _build_sample(
        "schema",
        ("sql", "UPDATE t SET a = 2 WHERE a = 1"),
        database={"schema_sql": "CREATE TABLE t (a); INSERT INTO t VALUES (1);"},
    ),
    _build_sample("not_bash", ("bash", "if true; then"), rules=["shell.syntax"]),
    _build_sample("not_sql", ("sql", "SELCT 1"), rules=["sql.syntax"]),
    _build_sample("blocked", ("bash", "rm data/sales.csv"), rules=["command.blocked"]),
    _build_sample(
        "all_rows", ("sql", "DELETE FROM sales -- WHERE id = 1"), rules=["sql.delete_without_where"]
    ),
    _build_sample("drops", ("sql", "DROP TABLE sales"), rules=["sql.drop"]),
    _build_sample("upwards", ("bash", "true"), files={"../x": ""}, rules=["path.invalid"]),
    _build_sample("missing_file", ("bash", "cat data/gone.csv"), rules=["path.missing"]),
    _build_sample("removed_file", ("bash", 'cat "data/$(date +%s).csv"'), rules=["step.file_not_found"]),
    _build_sample("missing_table", ("sql", "SELECT * FROM gone"), rules=["step.table_missing"]),
    _build_sample("endless", ("sql", _ENDLESS), rules=["sandbox.timeout"]),
    _build_sample("bad_schema", ("sql", "SELECT 1"), database=_BROKEN, rules=["database.schema"]),
)
