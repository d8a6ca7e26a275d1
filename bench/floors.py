"""What lies below: a bare interpreter, the guest's runner, the OCI runtime, and peers without a daemon.

Needs root: programs are started in the unpacked root filesystem of the image `python`.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assayd.engines.oci.host import find_host
from assayd.engines.oci.images import ImageStore
from assayd.guest.frames import PROTOCOL, encode_frame

PYTHON = ("/usr/bin/python3.11", "-I", "-S")
BARE = (*PYTHON, "-c", "pass")
ENVIRONMENT = {"PATH": "/usr/bin", "LANG": "C.UTF-8"}
_NEW_MOUNTS, _BIND, _RECURSIVE, _PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_libc = ctypes.CDLL(None)
HELLO = encode_frame({"type": "hello", "protocol": PROTOCOL, "preload": []})


def python_image(images: Path) -> tuple[Path, Sequence[str]]:
    """Return the root filesystem of the image `python`, and what it starts."""
    store = ImageStore(images)
    try:
        image = store.get(store.find("assayd/python").digest)
        document = json.loads((image.folder / "config.json").read_bytes())
        return Path(image.root), document["config"]["Entrypoint"]
    finally:
        store.close()


def start_cpu(images: Path, count: int) -> Iterator[tuple[str, float]]:
    """Measure the processor time of starts: bare Python to its end, the runner until it is ready."""
    root, entry_point = python_image(images)
    bare, runner = [], []
    for _ in range(count):
        bare.append(_cpu_to_its_end(root, BARE))
        runner.append(_cpu_until_ready(root, entry_point))
    yield "bare_python_cpu_ms", round(statistics.median(bare) * 1000, 3)
    yield "runner_start_cpu_ms", round(statistics.median(runner) * 1000, 3)


def _cpu_to_its_end(root: Path, arguments: Sequence[str]) -> float:
    pid = os.fork()
    if not pid:
        _become(root, arguments)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime


def _cpu_until_ready(root: Path, arguments: Sequence[str]) -> float:
    to_read, to_write = os.pipe()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(to_read, 0)
        os.dup2(writing, 1)
        _become(root, arguments)
    for descriptor in (to_read, writing):
        os.close(descriptor)
    os.write(to_write, HELLO)
    answer = os.read(reading, 65536)
    ran_ns = int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])
    for descriptor in (to_write, reading):
        os.close(descriptor)
    os.waitpid(pid, 0)
    if b'"ready"' not in answer:
        raise RuntimeError(f"the runner did not answer the greeting: {answer[:200]!r}")
    return ran_ns * 1e-9


def _become(root: Path, arguments: Sequence[str]) -> None:
    """Turn this fork into a program of the image, with the host's devices in mounts of its own."""
    try:
        target = os.fsencode(root / "dev")
        made = (
            _libc.unshare(_NEW_MOUNTS),
            _libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None),
            _libc.mount(b"/dev", target, None, _BIND | _RECURSIVE, None),
        )
        if any(made):
            os._exit(125)
        os.chroot(root)
        os.chdir("/")
        os.closerange(3, 256)
        os.execve(arguments[0], list(arguments), ENVIRONMENT)
    finally:
        os._exit(126)


def runtime_ceiling(images: Path, *, concurrency: int, seconds: float) -> float | None:
    """Return how many containers of bare Python crun starts and removes per second; None without crun."""
    crun = shutil.which("crun")
    if crun is None:
        return None
    root, _ = python_image(images)
    with tempfile.TemporaryDirectory(prefix="assayd-bench-crun-") as folder:
        bundle, state = Path(folder, "bundle"), Path(folder, "state")
        bundle.mkdir()
        subprocess.run([crun, "spec", f"--bundle={bundle}"], check=True, timeout=30)
        document = json.loads((bundle / "config.json").read_bytes())
        document["process"] |= {"args": list(BARE), "terminal": False, "cwd": "/"}
        document["root"] = {"path": str(root), "readonly": True}
        (bundle / "config.json").write_text(json.dumps(document), encoding="utf-8")
        command = [crun, f"--root={state}", "--cgroup-manager=disabled", "run", f"--bundle={bundle}"]
        return _rate(lambda name: [*command, name], concurrency, seconds)


def _mount_hugetlb() -> None:
    """Mount, for this thread and what it starts, the control groups without which crun refuses version 1."""
    folder = find_host().hugetlb
    if not folder:
        return
    made = (
        _libc.unshare(_NEW_MOUNTS),
        _libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None),
    )
    Path(folder).mkdir(exist_ok=True)
    if any((*made, _libc.mount(b"cgroup", os.fsencode(folder), b"cgroup", 0, b"hugetlb"))):
        raise RuntimeError(f"cannot mount {folder}, which crun needs")


def _rate(command: Callable[[str], Sequence[str]], concurrency: int, seconds: float) -> float:
    began = time.perf_counter()

    def work(worker: int) -> int:
        count = 0
        while time.perf_counter() < began + seconds:
            # What it prints is no figure; its standard input ends at once.
            arguments = command(f"bench-{os.getpid()}-{worker}-{count}")
            subprocess.run(
                arguments, check=True, timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            count += 1
        return count

    with ThreadPoolExecutor(concurrency, initializer=_mount_hugetlb) as pool:
        count = sum(pool.map(work, range(concurrency)))
    return round(count / (time.perf_counter() - began), 3)


def peers(images: Path, source: str, path: str, count: int) -> Iterator[tuple[str, list[float]]]:
    """Time peers that run the same function once: bare Python, and sandboxes that are installed."""
    root, _ = python_image(images)
    program = f"{source}\nimport json\nprint(json.dumps(extract({path!r})))\n"
    commands: dict[str, Sequence[str]] = {"fork_without_isolation": (sys.executable, *PYTHON[1:])}
    if bubblewrap := shutil.which("bwrap"):
        bind = ("--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev")
        commands["bubblewrap"] = (bubblewrap, *bind, "--unshare-all", "--die-with-parent", *PYTHON)
    if nsjail := shutil.which("nsjail"):
        commands["nsjail"] = (nsjail, "-Mo", "-q", "-c", str(root), "--", *PYTHON)
    for name, command in commands.items():
        try:
            yield name, _times([*command, "-c", program], count)
        except subprocess.SubprocessError as problem:
            print(f"{name} does not run here: {problem}", file=sys.stderr)


def _times(command: Sequence[str], count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run(command, check=True, timeout=60, capture_output=True, env=ENVIRONMENT)
        took.append(time.perf_counter() - began)
    return took
