"""The kind `ini` of tests/plugins is found by its entry point, and mentioned nowhere else."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assayd.documents import PayloadCaps, read_submission
from assayd.errors import ConfigError, RequestError
from assayd.imaging import RecipeFolders
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.package_data import get_shared_data_path
from assayd.settings import Settings
from assayd.store.jobs import DatabaseJobStore, open_job_store
from assayd.wiring.profiles import load_profiles
from assayd.wiring.wings import load_recorders, load_routers
from assayd_client import PlainClient
from assayd_client.cli import main
from assayd_client.cli.submitting import ValidateRequest, build_submission
from support.stores.empty_database import lay_database
from support.stores.stored_attempts import Make
from support.texts.ini_kind import FIELDS, GOOD, install, submission

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("ini"))


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("ASSAYD_VALIDATORS", '["ini"]')
    return folder


@pytest.fixture
def ini(installed: Path) -> Kind:
    return registry.load_validators(["ini"])["ini"]


@pytest.fixture
async def jobs(ini: Kind, tmp_path: Path) -> AsyncIterator[DatabaseJobStore]:
    lay_database(tmp_path)
    async with open_job_store(tmp_path, recorders=load_recorders({"ini": ini})) as store:
        yield store


def text(**changes: object) -> bytes:
    return json.dumps(submission(**changes)).encode()


@pytest.mark.slow
def test_it_is_there_only_where_it_is_named(ini: Kind) -> None:
    assert ini.name == "ini"
    assert "ini" not in registry.load_validators([])


@pytest.mark.parametrize(("enabled", "known"), [(("ini",), True), ((), False)])
def test_its_policy_and_its_image_come_with_it_where_it_is_enabled(
    installed: Path, enabled: tuple[str, ...], known: bool
) -> None:
    profiles = load_profiles(Settings(validators=enabled, policy_folders=()))
    assert ("ini" in profiles.names) == known
    packaged = registry.find_data_folders(enabled, "images")
    recipes = RecipeFolders(get_shared_data_path("images"), None, packaged)
    assert ("ini" in recipes.names()) == known
    assert recipes.load("python").name == "python"
    if known:
        assert recipes.load("ini").packages == recipes.load("python").packages


def test_nothing_outside_of_its_folder_knows_it() -> None:
    known = [*ROOT.glob("daemon/**/*.py"), *ROOT.glob("images/**/*.toml"), *ROOT.glob("policies/*.toml")]

    assert [path for path in known if "assayd_ini" in path.read_text() or '"ini"' in path.read_text()] == []


def test_it_is_taken_for_what_it_brings(ini: Kind) -> None:
    assert [one.kind for one in load_recorders({"ini": ini})] == ["ini"]
    assert [route.path for router in load_routers({"ini": ini}) for route in router.routes] == [
        "/v1/ini/files"
    ]


def test_its_source_is_under_the_cap_of_sources(ini: Kind) -> None:
    kinds = {"ini": ini}
    size = len(GOOD.encode())
    assert read_submission(text(), kinds, caps=PayloadCaps(source_bytes=size)).kind == "ini"

    with pytest.raises(RequestError) as refused:
        read_submission(text(), kinds, caps=PayloadCaps(source_bytes=size - 1))

    assert (refused.value.code, refused.value.field) == ("too_large", "payload.text")


def test_static_samples_get_their_rules(ini: Kind) -> None:
    found = {
        sample.name: {
            finding.rule
            for stage in ini.stages
            for finding in stage.check(ini.payload.model_validate(sample.payload), None)
        }
        for sample in ini.samples
        if not sample.needs_container
    }
    assert found == {sample.name: sample.rules for sample in ini.samples if not sample.needs_container}


async def test_its_recorder_keeps_rows_in_a_table_that_is_made_for_it(
    jobs: DatabaseJobStore, ini: Kind
) -> None:
    make = Make()
    attempt = make.attempt(1, kind="ini")
    await jobs.accept(attempt, text())
    cases = (Case(name="a.b", status=CaseStatus.PASSED), Case(name="a.c", status=CaseStatus.FAILED))
    finished = make.finished(1, kind="ini", verdict=Verdict.FAILED)
    await jobs.lease(make.run(1, kind="ini"))
    await jobs.finish(finished, cases=cases)
    [recorder] = load_recorders({"ini": ini})
    records: Any = recorder.records(jobs.access)

    rows = await records.list(attempt.peer.uid)

    assert rows == [{"attempt_id": attempt.id, "uid": attempt.peer.uid, "lines": 4, "fields_read": 1}]
    assert await records.list(attempt.peer.uid + 1) == []


async def test_its_rows_go_with_their_attempts_and_its_table_stays(
    jobs: DatabaseJobStore, ini: Kind, tmp_path: Path
) -> None:
    make = Make()
    await jobs.accept(make.attempt(1, kind="ini"), text())
    await jobs.finish(make.finished(1, kind="ini"))
    await jobs.remove([make.attempt(1).id])
    [recorder] = load_recorders({"ini": ini})
    async with open_job_store(tmp_path, recorders=(recorder,)) as again:
        records: Any = recorder.records(again.access)
        assert await records.list(None) == []


@pytest.mark.usefixtures("installed")
def test_command_line_builds_its_payload_with_its_option(assay, service, ini, tmp_path, capsys) -> None:
    service.kinds = {"ini": ini}
    file = tmp_path / "server.ini"
    file.write_text(GOOD)
    fields = ",".join(f"{name}:{kind}" for name, kind in FIELDS.items())

    assert assay("validate", "ini", str(file), "--option", f"fields={fields}", "--form", "flat") == 0

    (sent,) = service.submissions.values()
    payload = {"text": GOOD, "fields": FIELDS, "complete": False}
    assert json.loads(sent.document)["payload"] == payload
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("option", ["feilds=a.b:int", "complete=perhaps"])
def test_option_that_it_has_not_is_refused(assay, service, tmp_path, capsys, option: str) -> None:
    file = tmp_path / "server.ini"
    file.write_text(GOOD)
    assert assay("validate", "ini", str(file), "--option", option) == 2
    assert service.submissions == {}
    assert option.split("=")[0] in capsys.readouterr().err


@pytest.mark.usefixtures("installed")
def test_its_commands_are_those_of_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.ini"
    file.write_text("[server]\nport = 1\n")
    assert main(["ini", "fields", str(file)]) == 0
    assert capsys.readouterr().out == "server.port:str\n"


@pytest.mark.usefixtures("installed")
def test_kinds_describes_it(assay, service, ini, capsys) -> None:
    service.kinds = {"ini": ini}
    assert assay("kinds", "ini") == 0
    shown = capsys.readouterr().out
    for expected in ("ini: policy ini, image python", "stages: syntax, fields", "  text: string"):
        assert expected in shown
    for expected in ("--option fields=", "forms: flat", "ini.no_value (error)", '"server.port": "int"'):
        assert expected in shown


def test_installed_kind_needs_no_setting_on_the_command_line(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, assay, service, ini, capsys
) -> None:
    """Regression: the client denied that the kind exists, and the help lacked its commands."""
    monkeypatch.delenv("ASSAYD_VALIDATORS")
    service.kinds = {"ini": ini}
    file = tmp_path / "server.ini"
    file.write_text(GOOD)
    assert main(["ini", "fields", str(file)]) == 0
    fields = ",".join(f"{name}:{kind}" for name, kind in FIELDS.items())
    assert assay("validate", "ini", str(file), "--option", f"fields={fields}") == 0
    capsys.readouterr()
    assert main(["--help"]) == 0
    assert re.search(r"^  ini\b", capsys.readouterr().out, re.MULTILINE)


def test_kind_that_only_the_daemon_knows_takes_one_text(
    tmp_path: Path,
) -> None:
    text = {"type": "string"}
    described = {
        "far": {"required": ["text"], "properties": {"text": text, "note": text}},
        "two": {"required": ["a", "b"], "properties": {"a": text, "b": text}},
    }
    file = tmp_path / "x.ini"
    file.write_text("hello")
    build = ValidateRequest(
        kind="far", files=[file], input=None, sample_paths=(), policy=None, settings=(), labels=(), options=()
    )
    client = SimpleNamespace(kind=lambda kind: {"kind": kind, "payload_schema": described[kind]})
    submission, _ = build_submission(build, cast("PlainClient", client))
    assert submission["payload"] == {"text": "hello"}
    with pytest.raises(RequestError, match="also install its package here"):
        build_submission(replace(build, kind="two"), cast("PlainClient", client))


@pytest.mark.slow
def test_validator_that_cannot_be_imported_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path)
    (folder / "assayd_ini/validator.py").write_text("import no_such_module_at_all\n")
    program = (
        "from assayd.errors import ConfigError\nfrom assayd.kinds.registry import load_validators\n"
        "try:\n    load_validators(['ini'])\nexcept ConfigError as error:\n    print(error.code, error.field)"
    )
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT / 'daemon'}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["validator.broken", "ini"]
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match="no installed distribution"):
        registry.load_validators(["no-such-kind"])
