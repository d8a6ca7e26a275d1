"""`assay module` with a daemon that signs: modules are installed only if they pass, and rolled back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assayd_attestation import signatures
from support.daemons.daemon_fixtures import needs_root, new_daemon
from support.daemons.daemon_process import ROOT, DaemonProcess

pytestmark = pytest.mark.engine

POLICY = ("--policy", "module_validation")
Assay = Callable[..., tuple[int, str]]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signatures.create_key_pair(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def daemon(key: Path) -> Iterator[DaemonProcess]:
    daemon = new_daemon("oci", settings={"ATTESTATION__KEY": str(key), "POOL__DEFAULT_TARGET": "0"})
    daemon.start()
    yield daemon
    daemon.dispose()


@pytest.fixture
def assay(daemon: DaemonProcess) -> Assay:
    def run(*words: object) -> tuple[int, str]:
        done = daemon.assay("module", *map(str, words))
        return done.returncode, done.stdout + done.stderr

    return run


@needs_root
def test_module_is_installed_only_if_it_passes_and_its_proof_is_with_it(
    assay: Assay, key: Path, tmp_path: Path
) -> None:
    tree, module = tmp_path / "tree", tmp_path / "weather"
    (tree / "weather").mkdir(parents=True)
    shutil.copytree(ROOT / "examples/module/weather", module)
    public = tmp_path / "key.pub"
    installing = ("install", module, "--into", tree, *POLICY)
    assert assay(*installing) == (0, "weather/open_meteo 1.2.0: installed\n")
    assert assay("verify", tree, "--key", public)[0] == 0

    manifest = (module / "manifest.json").read_text()
    (module / "manifest.json").write_text(manifest.replace("1.2.0", "1.3.0"))
    adapter = (module / "adapter.py").read_text()
    (module / "adapter.py").write_text(adapter + "\nimport subprocess\n")
    code, told = assay(*installing)
    assert (code, "import.not_allowed" in told) == (1, True)
    assert json.loads(assay("list", tree, "--json")[1])["modules"][0]["version"] == "1.2.0"

    (module / "adapter.py").write_text(adapter)
    assert assay(*installing)[1] == "weather/open_meteo 1.3.0: installed; replaced 1.2.0, which is kept\n"
    assert assay("rollback", tree, "weather/open_meteo")[0] == 0
    assert assay("verify", tree, "--key", public)[0] == 0

    installed = tree / "weather/open_meteo"
    shutil.copy(tree / ".assayd/kept.weather.open_meteo/.assayd/attestation.json", installed / ".assayd")
    code, told = assay("verify", tree, "--key", public)
    assert (code, "attestation: it is for another submission" in told) == (1, True)
    (installed / "adapter.py").write_text("")
    code, told = assay("verify", tree)
    assert (code, "adapter.py was changed" in told) == (1, True)


@needs_root
def test_bad_input_of_each_verb_is_named_and_changes_nothing(assay: Assay, tmp_path: Path) -> None:
    tree, module = tmp_path / "tree", ROOT / "examples/module/weather"
    tree.mkdir()
    wrong = {
        ("install", module, "--into", tree, *POLICY): "has no category 'weather'",
        ("install", module, "--into", tmp_path / "gone", *POLICY): "gone: No such file or directory",
        ("install", tmp_path / "gone", "--into", tree, *POLICY): "gone: No such file or directory",
        ("install", tree, "--into", tree, *POLICY): "a module needs one manifest",
        ("install", module, "--into", tree, "--new-category", "--policy", "nope"): "unknown policy 'nope'",
        ("list", module / "adapter.py"): "is a symbolic link or not a folder",
        ("rollback", tree, "open_meteo"): "'open_meteo' is not CATEGORY/PLATFORM",
        ("rollback", tree, "weather/open_meteo"): "isn't installed",
        ("verify", tmp_path / "gone"): "No such file or directory",
        ("verify", tree, "--key", tmp_path / "gone"): "can't read the key file",
    }
    for words, told in wrong.items():
        code, printed = assay(*words)
        assert (code, told in printed) == (2, True), printed
    assert not list(tree.glob("[!.]*"))
