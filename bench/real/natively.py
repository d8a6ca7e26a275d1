"""Runs candidates natively: in an image's root file system, as nobody, without a network, for five seconds.

Says which run, and returns what bash prints and functions return. It makes namespaces, so it needs root.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.real.candidates import Candidate

_LIMIT_S = 10
"""The program itself has five seconds; `timeout` is the first process, whose end ends all."""
_LIMITS = ["prlimit", "--as=2000000000", "--nproc=200", "--fsize=50000000", "--"]
_PLACES = """
root=$1; shift
mount -t proc proc "$root/proc" && mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/sandbox"
mount --bind /dev "$root/dev" && mkdir -m 1777 "$root"/sandbox/{data,tmp,scripts,logs}
exec env -i PATH=/usr/bin HOME=/sandbox LANG=C.UTF-8 PWD=/ \
    /usr/bin/timeout -s KILL 5 /usr/sbin/chroot --userspec=65534:65534 "$root" "$@"
"""
PATHS = [
    "/data/ACME/2024/Q1/report.csv", "/srv/files/sub-01/ses-02/anat/sub-01_T1w.nii.gz",
    "report_2024-03-01.json", "https://example.org/a/b/index.html?x=1#top",
    "/home/ann/My Documents/notes v1.2.txt", "src/package/module.py",
    "C:\\Users\\ann\\file.docx", "s3://bucket/key/with/parts.parquet", "archive.tar.gz", "a/b/../c/./d.txt",
    "/var/log/app/server.log.3", "README",
]  # fmt: skip
_FUNCTIONS = """
import io, json, os, sys
os.chdir("/sandbox")
given = json.load(sys.stdin)
out, sys.stdout = sys.stdout, io.StringIO()
def touches(event, arguments):
    outside = {"open", "os", "shutil", "glob", "subprocess", "webbrowser"}
    imported = arguments and str(arguments[0]).startswith(("/usr/lib/python3", "/proc/self"))
    return event.partition(".")[0] in outside and not imported
def run(more):
    names = {"__name__": "__main__", **more}
    exec(compile(given["text"], "candidate.py", "exec", dont_inherit=True), names)
    return names
try:
    if given["type"] == "code":
        print(json.dumps([repr(run(given["inputs"])["result"])]), file=out)
    else:
        extract, found, touched = run({})["extract"], {}, []
        sys.addaudithook(lambda event, arguments: touches(event, arguments) and touched.append(event))
        for path in given["paths"]:
            try:
                value = extract(path)["result"]
            except Exception:
                continue
            if value is not None and value != "":
                found[path] = repr(value)
        print(json.dumps(None if touched else found), file=out)
except BaseException:
    print("null", file=out)
"""
_IMPORT = """
import io, json, os, sys
sys.path.append("/usr/lib/python3/dist-packages")
os.chdir("/sandbox")
given = json.load(sys.stdin)
open("candidate.py", "w").write(given["text"])
sys.path.insert(0, "/sandbox")
out, sys.stdout = sys.stdout, io.StringIO()
try:
    import candidate
    print("true", file=out)
except BaseException:
    print("null", file=out)
"""
_SQL = """
import base64, json, sqlite3, sys
given = json.load(sys.stdin)
database = sqlite3.connect(":memory:", isolation_level=None)
database.execute("PRAGMA foreign_keys=ON")
if given["before"]:
    database.deserialize(base64.b64decode(given["before"]))
try:
    database.executescript(given["text"])
    if database.in_transaction:
        database.commit()
    print(json.dumps(base64.b64encode(database.serialize()).decode()))
except Exception:
    print("null")
"""


class Images:
    """Runs programs in the root file systems of a daemon's images."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder of images (`.run/images`)."""
        self._folder = folder

    def run(self, image: str, words: list[str], given: str = "") -> subprocess.CompletedProcess[bytes] | None:
        """Run words in an image; return None at the limit of time."""
        name = (self._folder / "names" / quote(f"assayd/{image}:latest", safe="")).read_text().strip()
        root = self._folder / "images" / name.removeprefix("sha256:") / "rootfs"
        isolated = ["unshare", "--net", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child"]
        try:
            return subprocess.run(
                [*_LIMITS, *isolated, "bash", "-c", _PLACES, "bash", str(root.resolve()), *words],
                input=given.encode("utf-8", "replace"), capture_output=True, timeout=_LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None

    def python(self, image: str, program: str, given: object) -> Any:
        """Run a program of Python that prints JSON; return None if it doesn't."""
        done = self.run(image, ["/usr/bin/python3.11", "-I", "-S", "-c", program], json.dumps(given))
        try:
            return json.loads(done.stdout) if done else None
        except ValueError:
            return None


def bash(candidate: Candidate, images: Images) -> dict[str, Any] | None:
    """Return what a script prints, if it ends well and prints something."""
    words = ["/usr/bin/bash", "--noprofile", "--norc", "-c", f"cd /sandbox\n{candidate.text}"]
    done = images.run("shell", words)
    if done is None or done.returncode or not done.stdout.strip() or len(done.stdout) > 100_000:
        return None
    if (
        b"command not found" in done.stderr
        or b"syntax error" in done.stderr
        or b"No such file" in done.stderr
    ):
        return None
    return {"printed": done.stdout.decode("utf-8", "replace")}


def function(candidate: Candidate, images: Images) -> dict[str, Any] | None:
    """Return the paths or inputs with the results.

    A path parser must give something on three paths, without opening files or starting programs.
    """
    given = {"type": candidate.type, "text": candidate.text, "paths": PATHS, **candidate.more}
    found = images.python("python", _FUNCTIONS, given)
    if candidate.type == "code":
        return {"inputs": candidate.more["inputs"], "results": found} if found else None
    return {"paths": list(found), "results": list(found.values())} if found and len(found) >= 3 else None


def adapter(candidate: Candidate, images: Images) -> dict[str, Any] | None:
    """Return nothing more, if the file can be imported."""
    return {} if images.python("adapter", _IMPORT, {"text": candidate.text}) else None


def sql(candidates: Iterator[Candidate], images: Images) -> Iterator[tuple[Candidate, dict[str, Any]]]:
    """Return what runs in SQLite, after what runs before it in its folder or page or without that."""
    folder, before = "", ""
    for candidate in candidates:
        if candidate.more["folder"] != folder:
            folder, before = candidate.more["folder"], ""
        for database in dict.fromkeys((before, "")):
            after = images.python("shell", _SQL, {"before": database, "text": candidate.text})
            if after is not None:
                yield candidate, {"before": database or base64.b64encode(b"").decode()}
                before = after
                break
