"""`assay validate` at a terminal: verdicts, exit codes, bundles."""

import hashlib
import io
import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from assayd_client import Document, PlainClient
from support.daemons.daemon_process import ROOT, DaemonProcess
from support.texts.extractors import GOOD, GREEDY, LOOP, LOUD, NOISY, PATH, PROCESSES, RAISES, extractor

pytestmark = pytest.mark.engine

EXAMPLES = ROOT / "examples"


def examples() -> list[tuple[Path, Document]]:
    """Return (folder, example) for each entry of every `examples.toml`."""
    return [
        (listing.parent, example)
        for listing in sorted(EXAMPLES.glob("*/examples.toml"))
        for example in tomllib.loads(listing.read_text())["example"]
    ]


def first_of_each(listed: list[tuple[Path, Document]]) -> list[tuple[Path, Document]]:
    """Return the first example of each kind and verdict: what one more engine runs."""
    return list({(folder, one["verdict"]): (folder, one) for folder, one in reversed(listed)}.values())


EVERY = examples()
FIRST = first_of_each(EVERY)
FURTHER = [each for each in EVERY if each not in FIRST]


def rules(attempt: Document) -> set[str]:
    return {finding["rule"] for finding in attempt["report"]["findings"]}


def test_example_of_the_readme_is_validated(daemon: DaemonProcess) -> None:
    file = EXAMPLES / "extractor/quarter.py"

    done = daemon.assay("validate", "extractor", file, "--sample-path", PATH, "--json")

    assert done.returncode == 0, done.stderr
    attempt = json.loads(done.stdout)
    assert attempt["report"]["status"] == "VALIDATED"
    assert attempt["report"]["stage_reached"] == "complete"
    (case,) = attempt["report"]["runtime_results"]["cases"]
    assert case["name"] == PATH
    assert {"client_id": "ABC", "year": 2024, "quarter": 1, "filename": "report.csv"}.items() <= case[
        "result"
    ].items()


@pytest.mark.each_engine
@pytest.mark.parametrize(("folder", "example"), FIRST, ids=lambda value: str(value)[:40])
def test_example_gets_the_verdict_and_the_rules_that_it_states(
    daemon: DaemonProcess, folder: Path, example: Document
) -> None:
    assert_gets_what_it_states(daemon, folder, example)


@pytest.mark.parametrize(("folder", "example"), FURTHER, ids=lambda value: str(value)[:40])
def test_further_example_gets_the_verdict_and_the_rules_that_it_states(
    daemon: DaemonProcess, folder: Path, example: Document
) -> None:
    assert_gets_what_it_states(daemon, folder, example)


def assert_gets_what_it_states(daemon: DaemonProcess, folder: Path, example: Document) -> None:
    files = [folder / name for name in example.get("files", [example.get("file")])]
    words = [word for path in example.get("sample_paths", ()) for word in ("--sample-path", path)]
    words += [word for option in example.get("options", ()) for word in ("--option", option)]
    words += [word for setting in example.get("settings", ()) for word in ("--set", setting)]
    words += ["--policy", example["policy"]] if "policy" in example else []
    words += ["--input", str(folder / example["input"])] if "input" in example else []

    done = daemon.assay("validate", folder.name, *files, *words, "--json")

    attempt = json.loads(done.stdout)
    assert attempt["verdict"] == example["verdict"]
    assert set(example.get("rules", ())) <= rules(attempt)
    assert done.returncode == {"validated": 0, "failed": 1}[example["verdict"]]


@pytest.mark.each_engine
def test_infinite_loop_ends_as_timeout_at_its_unit_limit(client: PlainClient) -> None:
    attempt = client.submit(extractor(LOOP, seconds=1), wait_s=60)

    assert attempt["verdict"] == "failed"
    assert attempt["cause"] == attempt["execution"]["cause"] == "timeout"
    assert attempt["execution"]["cause_evidence"]["killed_by"] == "unit deadline"
    (case,) = attempt["report"]["runtime_results"]["cases"]
    assert 1000 <= case["duration_ms"] < 3500  # three times the limit, where it waited for a processor


@pytest.mark.each_engine
@pytest.mark.parametrize(
    ("code", "cause"),
    [(GREEDY, "out_of_memory"), (NOISY, "output_limit"), (RAISES, "exited_nonzero")],
    ids=["memory", "output", "exception"],
)
def test_code_that_goes_wrong_fails_with_its_cause(client: PlainClient, code: str, cause: str) -> None:
    attempt = client.submit(extractor(code), wait_s=60)

    assert (attempt["verdict"], attempt["cause"]) == ("failed", cause)
    assert attempt["report"]["stage_reached"] == "sandbox"


def test_forbidden_import_is_refused_without_a_container(client: PlainClient) -> None:
    attempt = client.submit(extractor(PROCESSES), wait_s=60)

    assert attempt["verdict"] == "failed"
    assert attempt["report"]["stage_reached"] == "security"
    assert any(finding["line"] == 2 for finding in attempt["report"]["findings"])
    assert attempt["execution"] is None
    assert attempt["warm"] is None
    assert attempt["report"]["runtime_results"] is None


@pytest.mark.parametrize("code", [LOUD, PROCESSES, RAISES], ids=["validated", "refused", "failed"])
def test_bundle_holds_the_files_of_the_contract_with_right_digests(
    daemon: DaemonProcess, client: PlainClient, code: str
) -> None:
    attempt = client.submit(
        extractor(code, labels={"category": "weather", "platform": "open_meteo"}), wait_s=60
    )

    folder = daemon.bundle(attempt)
    stamp, _, rest = folder.name.partition("_")
    assert rest.partition("-")[0] == attempt["id"]  # a gateway adds a digest: two runs may write at once
    assert folder.parent == daemon.state / "artifacts/weather/open_meteo"
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    usual = {f"{name}_{stamp}.log" for name in ("stdout", "stderr")}
    usual |= {f"{name}_{stamp}.json" for name in ("execution", "validation", "submission")}
    assert usual | {"manifest.json"} <= set(held) <= usual | {"manifest.json", f"junit_{stamp}.xml"}
    listed = {a["name"]: (a["bytes"], a["sha256"]) for a in attempt["artifacts"]}
    assert listed == {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in held.items()}
    manifest = {f["name"]: f["sha256"] for f in json.loads(held["manifest.json"])["files"]}
    assert manifest == {name: digest for name, (_, digest) in listed.items() if name != "manifest.json"}
    assert json.loads(held[f"validation_{stamp}.json"]) == attempt["report"]
    assert json.loads(held[f"execution_{stamp}.json"]) == attempt["execution"]


def test_bundle_is_served_as_it_lies_on_disk(daemon: DaemonProcess, client: PlainClient) -> None:
    attempt = client.submit(extractor(LOUD), wait_s=60)

    with tarfile.open(fileobj=io.BytesIO(client.bundle(attempt["id"]))) as archive:
        packed = {
            Path(member.name).name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }
    assert packed == {path.name: path.read_bytes() for path in daemon.bundle(attempt).iterdir()}
    (stdout,) = (name for name in packed if name.startswith("stdout"))
    assert client.artifact(attempt["id"], stdout) == b"looking at " + PATH.encode() + b"\n"


def test_client_without_a_daemon_says_so(daemon: DaemonProcess, tmp_path: Path) -> None:
    file = tmp_path / "good.py"
    file.write_text(GOOD)

    done = daemon.assay("--socket", tmp_path / "none", "validate", "extractor", file, "--sample-path", PATH)

    assert done.returncode == 4
    assert str(tmp_path / "none") in done.stderr


MISSING_COLON = "def extract(path: str) -> dict\n    return {'path': path}\n"
WITH_COLON = MISSING_COLON.replace("dict", "dict:")


def test_repaired_code_is_written_to_the_file_that_was_named(daemon: DaemonProcess, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MISSING_COLON)
    line = ["validate", "extractor", file, "--sample-path", PATH, "--repair", "rules", "--in-place"]

    done = daemon.assay(*line)

    assert (done.returncode, file.read_text()) == (0, WITH_COLON)
    assert done.stderr == f"assay: the validated code is in {file}\n"
    attempt = next(each for each in done.stdout.splitlines() if "policy extractor" in each).split()[0]
    assert daemon.assay("show", attempt, "--code").stdout == WITH_COLON


def test_repaired_code_is_written_to_another_file_and_failed_code_is_not(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    file, new = tmp_path / "mine.py", tmp_path / "new.py"
    file.write_text(MISSING_COLON)
    line = ["validate", "extractor", file, "--sample-path", PATH, "--out", new]

    assert daemon.assay(*line).returncode == 1
    assert not new.exists()
    assert daemon.assay(*line, "--repair", "rules").returncode == 0
    assert (file.read_text(), new.read_text()) == (MISSING_COLON, WITH_COLON)
