"""An approved pipeline runs on each day's data: good days are committed, a bad day isn't."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assayd_client import ClientError, Document, PlainClient
from assayd_pipeline_commands.run import PipelineRunCommand
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

CLEAN = "awk -F, 'NR == 1 || $3 + 0 > 0' data/sales.csv > data/clean.csv"
LOAD = """INSERT INTO sales
SELECT CAST(id AS INTEGER), region, CAST(amount AS REAL) FROM "data/clean.csv" WHERE true
ON CONFLICT (id) DO UPDATE SET amount = excluded.amount;"""
STEPS = [
    {"name": "clean", "type": "bash", "content": CLEAN},
    {"name": "load", "type": "sql", "content": LOAD},
]
DAYS, BAD_DAY = 30, 17


def sales(rows: int, amount: str = "amount") -> str:
    return f"id,region,{amount}\n" + "".join(f"{n},north,{n + 1}.5\n" for n in range(rows))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER PRIMARY KEY, region TEXT, amount REAL)")
    return tmp_path / "shop.db"


def approve(client: PlainClient, shop: Path, name: str) -> Document:
    payload = {
        "steps": STEPS,
        "files": {"data/sales.csv": sales(100)},
        "database": {"base64": base64.b64encode(shop.read_bytes()).decode()},
    }
    attempt = client.submit({"kind": "pipeline", "payload": payload}, wait_s=60)
    return client.approve(attempt["id"], name)


def rows_of(shop: Path) -> int:
    with closing(sqlite3.connect(shop)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sales").fetchone()
    return int(count)


def test_thirty_runs_on_growing_data_commit_all_but_the_bad_day(
    daemon: DaemonProcess,
    client: PlainClient,
    shop: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    approve(client, shop, "daily")
    data = tmp_path / "today.csv"
    run = PipelineRunCommand(
        files=[f"data/sales.csv={data}"], database=shop, rows=None, commit=True, directory=tmp_path / "out"
    )
    (tmp_path / "out").mkdir()
    for day in range(1, DAYS + 1):
        is_bad, before = day == BAD_DAY, shop.read_bytes()
        data.write_text(sales(100 + 20 * day, "total" if is_bad else "amount"))
        code = run.execute(client, "daily", webhook=None, as_json=False)
        told = capsys.readouterr()
        if is_bad:
            assert code == 1
            assert shop.read_bytes() == before
            assert "error[data.columns] 'data/sales.csv': columns missing: amount; new: total." in told.out
            assert "nothing was committed" in told.err
        else:
            assert code == 0, told.out
            assert rows_of(shop) == 100 + 20 * day

    runs = client.pipeline_runs("daily", limit=100)["runs"]
    assert [each["verdict"] for each in runs].count("failed") == 1
    assert len(runs) == DAYS
    assert runs[0]["tables"] == {"sales": 100 + 20 * DAYS}
    assert runs[DAYS - BAD_DAY]["findings"][0]["rule"] == "data.columns"
    shown = daemon.assay("pipeline", "history", "daily", "--limit", "2")
    assert shown.returncode == 0
    assert "data/sales.csv 700, data/clean.csv 700, sales 700" in shown.stdout


def test_rows_out_of_range_warn_and_with_commit_refuse(
    daemon: DaemonProcess, client: PlainClient, shop: Path, tmp_path: Path
) -> None:
    approve(client, shop, "ranged")
    (tmp_path / "sales.csv").write_text(sales(30))
    words = ("pipeline", "run", "ranged", "--file", tmp_path / "sales.csv", "--database", shop)
    warned = daemon.assay(*words)
    assert (warned.returncode, "warning[data.rows]" in warned.stdout) == (0, True)

    before = shop.read_bytes()
    refused = daemon.assay(*words, "--commit", "--directory", tmp_path)
    assert (refused.returncode, "error[data.rows]" in refused.stdout) == (1, True)
    assert shop.read_bytes() == before

    done = daemon.assay(*words, "--commit", "--directory", tmp_path, "--rows", "0.1..2")
    assert (done.returncode, rows_of(shop)) == (0, 30)
    back = daemon.assay("pipeline", "rollback", "ranged", "--database", shop, "--directory", tmp_path)
    assert back.returncode == 0, back.stderr
    assert rows_of(shop) == 0


def test_bad_input_of_each_verb_is_named(
    daemon: DaemonProcess, client: PlainClient, shop: Path, tmp_path: Path
) -> None:
    approve(client, shop, "named")
    junk = tmp_path / "junk.db"
    junk.write_text("junk")
    wrong = {
        ("run", "nowhere"): "'nowhere' doesn't exist in this library",
        ("run", "named@9"): "version 9 of 'named' doesn't exist",
        ("run", "named@x"): "is not NAME or NAME@VERSION",
        ("run", "named"): "was approved with a database file; pass one",
        ("run", "named", "--commit"): "--commit requires --database",
        ("run", "named", "--directory", tmp_path): "--directory requires --commit",
        ("run", "named", "--database", tmp_path / "gone.db"): "gone.db: No such file",
        ("run", "named", "--database", junk): "not a database",
        ("run", "named", "--database", shop, "--rows", "2..1"): "--rows '2..1': write the minimum",
        ("run", "named", "--database", shop, "--file", tmp_path / "gone.csv"): "gone.csv: No such file",
        ("history", "nowhere"): "there is nothing called 'nowhere'",
        ("history", "named@x"): "is not NAME or NAME@VERSION",
    }
    for words, told in wrong.items():
        done = daemon.assay("pipeline", *words)
        assert (done.returncode, told in done.stderr) == (2, True), (words, done.stderr)
    assert json.loads(daemon.assay("pipeline", "history", "named", "--json").stdout)["runs"] == []


def test_entry_of_another_kind_is_refused(client: PlainClient) -> None:
    attempt = client.submit({"kind": "script", "payload": {"code": "print(1)"}}, wait_s=60)
    client.approve(attempt["id"], "no-pipeline")
    with pytest.raises(ClientError, match="is of the kind script, not a pipeline") as refused:
        client.run_pipeline("no-pipeline")
    assert (refused.value.status, refused.value.field) == (422, "name")
