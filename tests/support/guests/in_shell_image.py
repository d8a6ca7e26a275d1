"""Runs inside the shell image: lists its contents, or runs scripts in a pipeline's folders."""

import json
import os
import re
import shutil
import stat
import string
import subprocess
import sys
from pathlib import Path

SANDBOX = Path("/sandbox")
FOLDERS = ("data", "tmp", "scripts", "logs")
FILES = {
    "data/sales.csv": "date,region,product,amount\n2024-01-02,north,apple,10.50\n2024-01-03,south,pear,70\n",
    "data/access.log": '10.0.0.1 - - [02/Jan/2024:10:00:00 +0000] "GET /index.html HTTP/1.1" 200 512\n'
    '10.0.0.2 - - [02/Jan/2024:10:00:01 +0000] "POST /form HTTP/1.1" 500 90\n',
    "data/users.csv": "1;Ada;ada@example.org\n2;Bob;bob@example.org\n",
    "data/notes.txt": "foo one\nbegin a c\ntwo\n\nend\n",
}
TOOLS = "/usr/lib/assayd/tools"
ENVIRONMENT = {
    "PATH": TOOLS,
    "LANG": "C.UTF-8",
    "HOME": "/sandbox",
    "TMPDIR": "/sandbox/tmp",
    "TZ": "UTC",
}


def look() -> dict[str, object]:
    """Return the image's programs, its set-uid files, and the programs in a step's PATH."""
    programs, privileged = [], []
    for folder, folders, files in os.walk("/"):
        folders[:] = [
            name for name in folders if f"{folder}/{name}".lstrip("/") not in {"proc", "sys", "dev"}
        ]
        for path in (Path(folder, name) for name in files):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & 0o111 and ".so" not in path.name and path.name != ".dockerenv":
                programs.append(str(path))
            if mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(mode):
                privileged.append(str(path))
    shown = sorted(path.name for path in Path(TOOLS).iterdir())
    gone = [
        name
        for name in ("sh", "apt", "apt-get", "dpkg", "perl", "chown", "python3", "dash")
        if shutil.which(name, path="/usr/bin:/bin")
    ]
    return {"programs": sorted(programs), "privileged": privileged, "path": shown, "left": gone}


def lay() -> None:
    """Create the sandbox directory again."""
    for path in SANDBOX.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for folder in FOLDERS:
        (SANDBOX / folder).mkdir()
    for name, content in FILES.items():
        (SANDBOX / name).write_text(content)


def run(scripts: list[str]) -> list[dict[str, object]]:
    """Run each script separately."""
    ended: list[dict[str, object]] = []
    for script in scripts:
        lay()
        (SANDBOX / "scripts/step.sh").write_text(script)
        done = subprocess.run(
            ["/usr/bin/bash", "--noprofile", "--norc", "scripts/step.sh"],
            cwd=SANDBOX,
            env=ENVIRONMENT,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        stderr = done.stderr.decode("utf-8", "replace")[-300:]
        stdout = done.stdout.decode("utf-8", "replace")[:65_536]
        ended.append({"status": done.returncode, "stdout": stdout, "stderr": stderr})
    return ended


def ask(tool: str, option: str) -> str:
    """Return a tool's output for a single option, or an empty text if it waits for input."""
    command = [f"{TOOLS}/{tool}", option]
    try:
        done = subprocess.run(
            command, cwd=SANDBOX, stdin=subprocess.DEVNULL, capture_output=True, timeout=0.5, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return (done.stderr + done.stdout).decode("utf-8", "replace")[:65_536]


def probe(tool: str) -> tuple[dict[str, bool], list[str]]:
    """Return a tool's short options, with whether each needs a value, and the long options that need one."""
    short = {}
    for letter in string.ascii_letters + string.digits:
        said = ask(tool, f"-{letter}")
        if "invalid option" not in said and "unrecognized option" not in said:
            short[letter] = "requires an argument" in said
    option = r"^ +(?:-., )?--([a-z0-9][a-z0-9-]+)(?:=[A-Z]| <)"
    found = re.findall(option, ask(tool, "--help"), re.MULTILINE)
    return short, found


asked = json.loads(sys.argv[1])
if asked and "tools" in asked:
    print(json.dumps({tool: probe(tool) for tool in asked["tools"]}), flush=True)
else:
    print(json.dumps(run(asked["scripts"]) if asked else look()), flush=True)
