"""Start a daemon of its own, validate the examples, show their reports, and end the daemon.

Run by `make run`; every command that it runs is printed, and can be typed by hand while `make serve` runs.
Exit code: 0 when every example got the verdict and the rules that `examples.toml` says, else 1.
"""

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
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
RUN = Path(".run")  # relative: a socket's path may have 108 bytes only
SOCKET = RUN / "assayd.sock"
LOG = RUN / "assayd.log"
STATE = RUN / "state"
ARTIFACTS = STATE / "artifacts"
READY_WITHIN_S = 90
STOP_WITHIN_S = 90


def main() -> int:
    os.chdir(ROOT)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with daemon() as process:
        if not wait_until_ready(process):
            print(f"the daemon is not ready; the end of {LOG}:\n{tail(LOG)}", file=sys.stderr)
            return 1
        examples = list(read_examples())
        wrong = [problem for example in examples for problem in validate(*example)]
        wrong += evaluate()
    for problem in wrong:
        print(f"NOT AS EXPECTED  {problem}", file=sys.stderr)
    if wrong or not examples:
        return 1
    print(
        f"All {len(examples)} examples got the verdict that they should; their bundles are in {ARTIFACTS}/."
    )
    return 0


@contextlib.contextmanager
def daemon():
    """Run the daemon in the background; end it whatever happens."""
    RUN.mkdir(exist_ok=True)
    settings = {
        "ASSAYD_SOCKET": str(SOCKET),
        "ASSAYD_STATE_DIR": str(STATE),
        "ASSAYD_LOG__FORMAT": "console",
        "ASSAY_SOCKET": str(SOCKET),
    }
    # Which engine is used is the caller's choice.
    settings |= {name: value for name, value in os.environ.items() if name.startswith("ASSAYD_ENGINE__")}
    others = {name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")}
    os.environ.clear()
    os.environ.update(others | settings)
    print(f"$ {' '.join(f'{k}={v}' for k, v in settings.items() if k.startswith('ASSAYD_'))} assayd &")
    with LOG.open("wb") as log:
        # In a session of its own: an interrupt is for this program, which then asks the daemon to stop.
        process = subprocess.Popen([BIN / "assayd"], stdout=log, stderr=log, start_new_session=True)
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


def wait_until_ready(process):
    """Ask the daemon until it says that it is ready; False when it ends or the time is up."""
    end = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ask("/readyz") == 200:
                return True
        time.sleep(0.05)
    return False


def ask(path):
    """Return the status that the daemon answers a GET with."""
    connection = http.client.HTTPConnection("assayd", timeout=5)
    connection.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(connection):
        connection.sock.settimeout(5)
        connection.sock.connect(str(SOCKET))
        connection.request("GET", path)
        return connection.getresponse().status


def read_examples():
    """Give (folder, example) for every entry of every `examples.toml`."""
    for listing in sorted((ROOT / "examples").glob("*/examples.toml")):
        for example in tomllib.loads(listing.read_text())["example"]:
            yield listing.parent.relative_to(ROOT), example


def validate(folder, example):
    """Validate one example, print its report, and give what is not as it should be."""
    files = [folder / name for name in example.get("files", [example.get("file")])]
    file = " ".join(map(str, files))
    answer = assay("validate", folder.name, *map(str, files), *options(folder, example), "--json")
    try:
        attempt = json.loads(answer)
    except ValueError:
        return [f"{file}: no attempt came back"]
    print(assay("show", attempt["id"]))
    found = {finding["rule"] for finding in (attempt["report"] or {}).get("findings", ())}
    problems = []
    if attempt["verdict"] != example["verdict"]:
        problems.append(f"{file}: {attempt['verdict']} instead of {example['verdict']}")
    if missing := set(example.get("rules", ())) - found:
        problems.append(f"{file}: did not find {', '.join(sorted(missing))}")
    return problems


def evaluate():
    """Run the example of an evaluation, and give what is not as it should be."""
    folder = Path("examples/evaluate")
    words = [str(folder / name) for name in ("problems.jsonl", "samples.jsonl")]
    printed = assay("evaluate", *words, "--k", "1,2", "--timeout", "5")
    print(printed)
    wanted = (folder / "expected.txt").read_text()
    return [] if printed == wanted else [f"{folder}: it should print\n{wanted}"]


def options(folder, example):
    """Return the options that an example is validated with."""
    for path in example.get("sample_paths", ()):
        yield from ("--sample-path", path)
    if "input" in example:
        yield from ("--input", str(folder / example["input"]))
    for option in example.get("options", ()):
        yield from ("--option", option)
    if "policy" in example:
        yield from ("--policy", example["policy"])
    for setting in example.get("settings", ()):
        yield from ("--set", setting)


def assay(*arguments):
    """Run the client, print its command line, and give what it wrote."""
    print(f"$ assay {shlex.join(arguments)}", flush=True)
    return subprocess.run([BIN / "assay", *arguments], stdout=subprocess.PIPE, text=True, check=False).stdout


def tail(path, lines=20):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
