"""Set everything up, validate the examples, say how they went, and end the daemon that was started for them.

Run by `make run` with any Python: the first step makes the environment. What the steps print goes to a log,
whose end is shown when one fails. Exit code: 0 if every example got the verdict and the rules that
`examples.toml` states, 1 if not, 2 if the socket is taken.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("VENV", ".venv"), "bin")
RUN = Path(".run")  # relative: a socket's path may have 108 bytes only
SOCKET = RUN / "assayd.sock"
SETUP_LOG = RUN / "setup.log"
LOG = RUN / "assayd.log"
STATE = RUN / "state"
SHOWN = ("extractor", "fails_on_one_path.py")
"""The folder and the file of the example whose report is shown."""
FIRST_IMAGE = "python"
FIRST = ("extractor", "code")
"""Folders whose examples need the first image alone; the others are built meanwhile."""
READY_WITHIN_S = 90
STOP_WITHIN_S = 90
IMAGE_FOUND_WITHIN_S = 15
STEPS = 5


class StepFailed(Exception):
    """A step of the set-up failed; the message says which."""


def main(engine: str) -> int:
    os.chdir(ROOT)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if answers("/healthz"):
        print(
            f"a daemon serves on {SOCKET} already, and the examples need a new one there: end `make serve` "
            f"first, or use its daemon: ASSAY_SOCKET={SOCKET.absolute()} {BIN}/assay doctor",
            file=sys.stderr,
        )
        return 2
    RUN.mkdir(exist_ok=True)
    SETUP_LOG.write_text("")
    began = time.monotonic()
    try:
        with beside("crun" if engine == "oci" else "engine") as provided:
            with step(1, "Python environment"):
                make("runtime")
            with step(2, "container engine"):
                begin, environment = engine_of(engine, provided)
        with step(3, f"image {FIRST_IMAGE}"):
            make(images(engine), f"IMAGES={FIRST_IMAGE}")
        with daemon(begin, environment) as process:
            with step(4, "daemon"):
                wait_until_ready(process)
            folders = read_examples()
            show_first(folders, began)
            with beside(images(engine)) as built:  # not before: it would delay the first verdict
                wrong = try_examples(folders, built)
    except StepFailed as failure:
        print(f"failed\n\n{tail(SETUP_LOG)}\n\n{failure}; all of its output: {SETUP_LOG}", file=sys.stderr)
        return 1
    for problem in wrong:
        print(f"NOT AS EXPECTED  {problem}", file=sys.stderr)
    if wrong:
        return 1
    print_end(engine, sum(map(len, folders.values())), time.monotonic() - began)
    return 0


def print_end(engine: str, count: int, took_s: float) -> None:
    serve = "make serve ENGINE=oci" if engine == "oci" else "make serve"
    runs = "" if engine == "oci" else "; the container engine may still run (`make stop` ends a private one)"
    print(
        f"\nAll {count} examples got the expected verdict in {took_s:.0f} s. The daemon has ended{runs}.\n"
        f"Next: run `{serve}`. It keeps these attempts and prints what to type in another terminal."
    )


# --- set-up -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def step(number: int, title: str):
    """Show a step with its number, and its time once it has ended."""
    print(f"[{number}/{STEPS}] {title} ", end="", flush=True)
    began = time.monotonic()
    yield
    print(f"({time.monotonic() - began:.0f} s)", flush=True)


def make(*words: str) -> None:
    """Run a target of the Makefile with its output in the log. Raises: StepFailed."""
    command = ["make", *words]
    with SETUP_LOG.open("ab") as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode:
            raise StepFailed(f"`{shlex.join(command)}` failed")


def images(engine: str) -> str:
    """Return the target that builds images for an engine."""
    return "images-oci" if engine == "oci" else "images"


def engine_of(engine: str, provided: subprocess.Popen) -> tuple[list[str], dict[str, str]]:
    """Wait for the engine; return the words before the daemon's command, and the settings for it."""
    ended(provided)
    if engine == "oci":
        begin = ["deploy/dev/oci.sh", "run"]
        return begin, {"ASSAYD_ENGINE__KIND": "oci", "ASSAYD_ENGINE__IMAGES_DIR": str(ROOT / RUN / "images")}
    found = subprocess.run(["deploy/dev/engine.sh", "socket"], stdout=subprocess.PIPE, text=True, check=True)
    return [], {"DOCKER_HOST": found.stdout.strip()}


def ended(process: subprocess.Popen) -> None:
    """Wait for a target of the Makefile. Raises: StepFailed."""
    if process.wait():
        raise StepFailed(f"`{shlex.join(process.args)}` failed")


@contextlib.contextmanager
def beside(target: str):
    """Make a target beside the body, with its output in the log."""
    with SETUP_LOG.open("ab") as log:
        process = subprocess.Popen(
            ["nice", "make", target], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


@contextlib.contextmanager
def daemon(begin: list[str], environment: dict[str, str]):
    """Run the daemon in the background; end it whatever happens."""
    settings = {
        "ASSAYD_SOCKET": str(SOCKET),
        "ASSAYD_STATE_DIR": str(STATE),
        "ASSAYD_LOG__FORMAT": "console",
        "ASSAY_SOCKET": str(SOCKET),
        **environment,
    }
    # Which engine is used is the caller's choice; no other setting of the caller is the examples'.
    settings |= {name: value for name, value in os.environ.items() if name.startswith("ASSAYD_ENGINE__")}
    others = {name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")}
    os.environ.clear()
    os.environ.update(others | settings)
    with LOG.open("wb") as log:
        # In a separate session: an interrupt is for this program, which then asks the daemon to stop.
        process = subprocess.Popen([*begin, BIN / "assayd"], stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print(f"the daemon did not stop within {STOP_WITHIN_S} s and was killed", file=sys.stderr)


def wait_until_ready(process) -> None:
    """Ask the daemon until it is ready. Raises: StepFailed, if it ends or the time is up."""
    end = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < end:
        if answers("/readyz"):
            return
        time.sleep(0.05)
    with SETUP_LOG.open("ab") as log:
        log.write(LOG.read_bytes())
    raise StepFailed("the daemon is not ready")


def answers(path: str) -> bool:
    """Return whether the daemon answers a GET with 200."""
    connection = http.client.HTTPConnection("assayd", timeout=5)
    connection.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.sock.settimeout(5)
        connection.sock.connect(str(SOCKET))
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


# --- examples ---------------------------------------------------------------------------------------------


def read_examples() -> dict[str, list[dict]]:
    """Return the entries of every `examples.toml` by folder."""
    import tomllib  # here: an older Python gets as far as the message of the first step

    return {
        listing.parent.name: tomllib.loads(listing.read_text())["example"]
        for listing in sorted((ROOT / "examples").glob("*/examples.toml"))
    }


def show_first(folders: dict[str, list[dict]], began: float) -> None:
    """Validate one example and show its report."""
    folder, file = SHOWN
    example = next(each for each in folders[folder] if each.get("file") == file)
    attempt, _ = validate(folder, example)
    print(f"\n{assay('show', attempt['id']) if attempt else ''}")
    print(f"[5/{STEPS}] examples; the first verdict came after {time.monotonic() - began:.0f} s", flush=True)


def try_examples(folders: dict[str, list[dict]], built: subprocess.Popen) -> list[str]:
    """Validate all examples; return what is not as it should be."""
    wrong: list[str] = []
    for folder in FIRST:
        wrong += try_folder(folder, folders[folder])
    ended(built)
    for folder in folders:
        if folder not in FIRST:
            wrong += try_folder(folder, folders[folder])
    return wrong + evaluate() + run_workflows() + apply_rules() + install_module() + run_again()


def try_folder(folder: str, examples: list[dict]) -> list[str]:
    """Validate the examples of a folder, show a line about them, and return what is not as it should be."""
    began = time.monotonic()
    found = [problem for example in examples for problem in validate(folder, example)[1]]
    passing = sum(example["verdict"] == "validated" for example in examples)
    print(
        f"      {folder:<10} {passing} validated, {len(examples) - passing} failed as they should"
        f"{f', {len(found)} NOT AS EXPECTED' if found else ''} ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    return found


def validate(folder: str, example: dict) -> tuple[dict | None, list[str]]:
    """Validate one example; return its attempt, and what is not as it should be."""
    place = Path("examples", folder)
    files = [str(place / name) for name in example.get("files", [example.get("file")])]
    attempt = submit("validate", folder, *files, *options(place, example), "--json")
    if attempt is None:
        return None, [f"{' '.join(files)}: no attempt came back"]
    found = {finding["rule"] for finding in (attempt["report"] or {}).get("findings", ())}
    problems = []
    if attempt["verdict"] != example["verdict"]:
        problems.append(f"{' '.join(files)}: {attempt['verdict']} instead of {example['verdict']}")
    if missing := set(example.get("rules", ())) - found:
        problems.append(f"{' '.join(files)}: did not find {', '.join(sorted(missing))}")
    return attempt, problems


def submit(*words: str) -> dict | None:
    """Return a finished attempt; ask again for a while if the daemon hasn't found a new image yet."""
    end = time.monotonic() + IMAGE_FOUND_WITHIN_S
    while True:
        with contextlib.suppress(ValueError):
            return json.loads(assay(*words))
        if time.monotonic() > end:
            return None
        time.sleep(0.5)


def evaluate() -> list[str]:
    """Run the example of an evaluation, and return what is not as it should be."""
    folder = Path("examples/evaluate")
    words = [str(folder / name) for name in ("problems.jsonl", "samples.jsonl")]
    printed = assay("evaluate", *words, "--k", "1,2", "--timeout", "5")
    wanted = (folder / "expected.txt").read_text()
    print(f"      {'evaluate':<10} {printed.splitlines()[-1] if printed else 'no result'}", flush=True)
    return [] if printed == wanted else [f"{folder}: it should print\n{wanted}"]


def run_workflows() -> list[str]:
    """Run the example of a workflow, check one that must be refused, and return what is not as it should be."""
    folder = Path("examples/workflow")
    printed = assay("workflow", "run", str(folder / "sales.yaml"))
    refused = assay("workflow", "check", str(folder / "fails_types.yaml"))
    wanted = {printed: (folder / "expected.json").read_text(), refused: "2 nodes, 1 error\n"}
    wrong = [f"{folder}: it should print\n{text}" for found, text in wanted.items() if found != text]
    print(f"      {'workflow':<10} 1 validated, 1 refused before it ran{', NOT AS EXPECTED' * bool(wrong)}")
    return wrong


def apply_rules() -> list[str]:
    """Approve the example of rules, apply it to the tree of examples, and return what is not as it should be."""
    tree, name = "examples/extractor", "example-rules"
    rules = f"{tree}/rules.yaml"
    attempt = submit("validate", "extractor", rules, "--sample-path", rules, "--json")
    assay("library", "approve", attempt["id"] if attempt else "", name)
    printed = assay("extractor", "apply", name, tree, "--jsonl", "-")
    lines = [json.loads(line) for line in printed.splitlines()]
    good = sum(line.get("result", {}).get("kind") == "extractor" for line in lines)
    print(f"      {'apply':<10} rules gave the fields of {good} of {len(lines)} paths in {tree}", flush=True)
    return [] if good and good == len(lines) else [f"{rules}: it should give the kind of each path"]


def install_module() -> list[str]:
    """Install the example of a module into a new tree, verify it, and return what is not as it should be."""
    import shutil

    tree = RUN / "example-tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    place = ("--into", str(tree), "--policy", "module_validation", "--new-category")
    printed = assay("module", "install", "examples/module/weather", *place)
    listed = assay("module", "verify", str(tree))
    print(f"      {'install':<10} {printed.strip() or 'no result'}", flush=True)
    return [] if "\tok" in listed else [f"examples/module/weather isn't installed in {tree}: {listed}"]


def run_again() -> list[str]:
    """Approve the example of a pipeline, run it on other data, and return what is not as it should be."""
    place = "examples/pipeline/csv_import"
    attempt = submit("validate", "pipeline", place, "--json")
    assay("library", "approve", attempt["id"] if attempt else "last", "example-import")
    text = Path(place, "data/sales.csv").read_text()
    good, bad = RUN / "good.csv", RUN / "bad.csv"
    good.write_text(text + text.splitlines()[1].replace("1", "7", 1) + "\n")
    bad.write_text(text.replace("amount", "total", 1))
    verdicts = []
    for path in (good, bad):
        ran = submit("pipeline", "run", "example-import", "--file", f"data/sales.csv={path}", "--json")
        rules = [finding["rule"] for finding in ran["report"]["findings"]] if ran else []
        verdicts.append(f"{ran['verdict'] if ran else 'no result'} {' '.join(rules)}".strip())
    print(f"      {'run again':<10} other data: {verdicts[0]}; a renamed column: {verdicts[1]}", flush=True)
    wanted = ["validated", "failed data.columns"]
    return [] if verdicts == wanted else [f"{place}: {verdicts} instead of {wanted}"]


def options(place: Path, example: dict):
    """Return the options that an example is validated with."""
    for path in example.get("sample_paths", ()):
        yield from ("--sample-path", path)
    if "input" in example:
        yield from ("--input", str(place / example["input"]))
    for option in example.get("options", ()):
        yield from ("--option", option)
    if "policy" in example:
        yield from ("--policy", example["policy"])
    for setting in example.get("settings", ()):
        yield from ("--set", setting)


def assay(*arguments: str) -> str:
    """Run the client and return what it wrote; messages go to the log."""
    with SETUP_LOG.open("ab") as log:
        log.write(f"$ assay {shlex.join(arguments)}\n".encode())
        log.flush()
        command = [BIN / "assay", *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False).stdout


def tail(path: Path, lines: int = 20) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:2] or ["docker"]))
    except KeyboardInterrupt:
        sys.exit(130)
