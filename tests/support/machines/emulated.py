"""An emulated machine with a separate kernel, clock and disk, on which the package runs a node. Root only.

It works without KVM, so it is five to twenty times slower than this machine.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from support.machines.machine import make_root
from support.machines.packages import CACHE, ROOT, build_deb, build_wheel, download_wheels

PACKAGES = ("crun", "iproute2", "kmod", "libseccomp2", "procps", "python3-pip")
NEEDED = ("qemu-system-x86", "qemu-utils", "mmdebstrap", "e2fsprogs", "systemd")
SCRIPT = Path(__file__).parent / "node_disk.sh"
BOOT_WITHIN_S = 300.0
COMMAND_WITHIN_S = 120.0
KERNEL_LINE = (
    "root=/dev/nvme0n1 rw console=ttyS0 panic=-1 quiet loglevel=3 mitigations=off init_on_alloc=0 "
    "nowatchdog audit=0 net.ifnames=0 systemd.unified_cgroup_hierarchy=1 systemd.show_status=0"
)


def make_node(work: Path) -> Path:
    """Return a folder with the kernel and the disk of this checkout's node, built once per content."""
    subprocess.run([ROOT / "deploy/dev/packages.sh", *NEEDED], check=True, timeout=1800)
    deb = build_deb(build_wheel(work), CACHE / "deb")
    wheels = download_wheels(CACHE / "wheels", "cluster")
    images = Path(os.environ.get("ASSAYD_ENGINE__IMAGES_DIR") or ROOT / ".run/images")
    names = sorted(path.name for path in (images / "images").iterdir())
    parts = [str(deb), str(wheels), *names, SCRIPT.read_text(), *PACKAGES]
    folder = CACHE / "emulated" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    if not folder.exists():
        root = make_root(CACHE / "system-emulated", PACKAGES)
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        command = ["bash", SCRIPT, root, deb, wheels, images, new]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        new.rename(folder)
    return folder


class EmulatedMachine:
    """A machine whose power can go.

    Args:
        node: a folder with `kernel` and `disk`; the disk is not changed.
        work: a folder for what the machine writes.
        settings: the files that it starts with; `start.sh` is run at each boot.
        tap: the end of its network cable, in the network namespace of this thread.
    """

    def __init__(self, node: Path, work: Path, settings: Mapping[str, str], tap: str) -> None:
        self._node = node
        self._work = work
        self._tap = tap
        self._emulator: subprocess.Popen[bytes] | None = None
        self._commands: socket.socket | None = None
        self._make_disks(settings)

    def _make_disks(self, settings: Mapping[str, str]) -> None:
        folder, image = self._work / "settings", self._work / "settings.img"
        folder.mkdir()
        for name, text in settings.items():
            (folder / name).write_text(text)
        with image.open("wb") as file:
            file.truncate(8 * 2**20)
        base = ["-b", (self._node / "disk").resolve(), "-F", "raw"]
        for command in (
            ["mke2fs", "-q", "-t", "ext4", "-d", folder, image],
            ["qemu-img", "create", "-q", "-f", "qcow2", *base, self._work / "disk.qcow2"],
        ):
            subprocess.run(command, check=True, timeout=120)

    def power_on(self) -> float:
        """Boot the machine and wait until it accepts commands; return the seconds that it took."""
        began = time.monotonic()
        place = self._work / "commands"
        place.unlink(missing_ok=True)
        with (self._work / "emulator.log").open("ab") as log:
            self._emulator = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        while not place.exists():
            assert self._emulator.poll() is None, (self._work / "emulator.log").read_text()
            time.sleep(0.1)
        self._commands = socket.socket(socket.AF_UNIX)
        self._commands.connect(str(place))
        until = began + BOOT_WITHIN_S
        while True:
            with suppress(TimeoutError):
                self.sh("true", within_s=5.0)
                return time.monotonic() - began
            assert time.monotonic() < until, f"no boot within {BOOT_WITHIN_S:g} s: {self.console()}"

    def power_off(self) -> None:
        """Cut the power; data that isn't on the disk is lost."""
        if self._commands is not None:
            self._commands.close()
            self._commands = None
        if self._emulator is not None:
            self._emulator.kill()
            self._emulator.wait(30)
            self._emulator = None

    def sh(self, script: str, *, within_s: float = COMMAND_WITHIN_S, check: bool = True) -> str:
        """Run one line as root in the machine; return its output."""
        assert self._commands is not None, "it has no power"
        self._commands.settimeout(within_s)
        marked = f"echo MARK{time.monotonic_ns()}; {script}"
        mark = marked.split(";")[0].removeprefix("echo ")
        self._commands.sendall(marked.encode() + b"\n")
        until = time.monotonic() + within_s
        while True:
            # Answers to commands that nobody waited for come first.
            text, _, status = self._line(until).rpartition(" ")
            with suppress(ValueError):
                said = base64.b64decode(text).decode(errors="replace")
                if said.startswith(mark):
                    assert not check or status == "0", f"{script} ended with {status}: {said}"
                    return said.removeprefix(mark).lstrip("\n")

    def _line(self, until: float) -> str:
        assert self._commands is not None
        read = bytearray()
        while not read.endswith(b"\n"):
            if time.monotonic() > until:
                raise TimeoutError
            received = self._commands.recv(1)
            assert received, f"the emulator has ended: {self.console()}"
            read += received
        return read.decode(errors="replace").strip()

    def console(self) -> str:
        """Return the last lines of the console."""
        shown = self._work / "console"
        return "\n".join(shown.read_text(errors="replace").splitlines()[-30:]) if shown.exists() else ""

    def _command(self) -> Sequence[str]:
        disks = ((self._work / "disk.qcow2", "qcow2"), (self._work / "settings.img", "raw"))
        drives = [
            word
            for number, (file, form) in enumerate(disks)
            for word in (
                "-drive",
                f"file={file},if=none,id=disk{number},format={form},cache=unsafe",
                "-device",
                f"nvme,drive=disk{number},serial=disk{number}",
            )
        ]
        return [
            *(
                "qemu-system-x86_64",
                "-accel",
                "tcg,thread=multi,tb-size=512",
                "-cpu",
                "max",
                "-machine",
                "q35",
            ),
            *("-smp", "2", "-m", "1536", "-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none"),
            *("-rtc", "base=utc,clock=host"),
            *("-serial", f"file:{self._work / 'console'}"),
            *("-serial", f"unix:{self._work / 'commands'},server=on,wait=off"),
            *("-netdev", f"tap,id=net,ifname={self._tap},script=no,downscript=no"),
            *("-device", "virtio-net-pci,netdev=net,romfile="),
            *drives,
            *("-kernel", str(self._node / "kernel"), "-append", KERNEL_LINE),
        ]
