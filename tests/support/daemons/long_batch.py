"""Long batches for load tests: lines of all kinds, the real client, and memory use of client and daemon."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from assayd.kinds import registry as validators
from assayd.model.submission import Sample
from support.daemons.daemon_process import BIN, DaemonProcess

MALFORMED = b'{"kind": "extractor", "payload": {"code":'
SAMPLED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a batch and its expected verdict."""

    text: bytes
    verdict: str
    needs_container: bool = False


def mixed(count: int, *, containers: int, malformed: int) -> list[Line]:
    """Return evenly mixed lines: `containers` of them need a container, `malformed` aren't submissions."""
    static, running = (cycle(_samples(needs_container=needs)) for needs in (False, True))
    lines = []
    for number in range(count):
        if number * malformed // count != (number + 1) * malformed // count:
            lines.append(Line(text=MALFORMED, verdict="error"))
        elif number * containers // count != (number + 1) * containers // count:
            lines.append(next(running))
        else:
            lines.append(next(static))
    return lines


def _samples(*, needs_container: bool) -> list[Line]:
    """Return the validators' samples, alternating between kinds, without slow ones."""
    kinds = [
        iter([_line(kind, each) for each in validator.samples if _suits(each, needs_container)])
        for kind, validator in sorted(validators.load_validators(()).items())
    ]
    found = []
    while kinds:
        for samples in list(kinds):
            line = next(samples, None)
            if line is None:
                kinds.remove(samples)
            else:
                found.append(line)
    return found


def _suits(sample: Sample, needs_container: bool) -> bool:
    timed = sample.unit_timeout_s is not None or any(rule.endswith("timeout") for rule in sample.rules)
    return sample.needs_container is needs_container and not timed


def _line(kind: str, sample: Sample) -> Line:
    text = json.dumps({"kind": kind, "payload": sample.payload}).encode()
    return Line(text=text, verdict=sample.verdict, needs_container=sample.needs_container)


def peak_kb(pid: int) -> int:
    """Return a process's peak resident memory, or 0 if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


class BatchClient:
    """`assay batch run` on a file, with every output format, as a context manager."""

    def __init__(self, daemon: DaemonProcess, lines: list[Line], name: str) -> None:
        self.folder = daemon.home / name
        self.folder.mkdir()
        file = self.folder / "items.jsonl"
        file.write_bytes(b"\n".join(line.text for line in lines))
        names = {"--out": "out", "--junit": "junit.xml", "--sarif": "findings.sarif"}
        outputs = [each for option, output in names.items() for each in (option, self.folder / output)]
        self._command = [BIN / "assay", "batch", "run", file, "--name", name, *outputs]
        self._environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
        self.peak_kb = 0

    def __enter__(self) -> BatchClient:
        self._process = subprocess.Popen(
            self._command, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLED_EVERY_S):
            self.peak_kb = max(self.peak_kb, peak_kb(self._process.pid))

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> tuple[int, str]:
        """Wait until the client ends; return its exit code and output."""
        said, _ = self._process.communicate()
        return self._process.returncode, said

    def results(self) -> Iterator[dict[str, object]]:
        with (self.folder / "out/results.jsonl").open(encoding="utf-8") as results:
            for line in results:
                yield json.loads(line)
