"""Lists the available languages: how programs are run, and how other judges' interfaces name the languages.

This module only contains data. A language requires an image that contains it, and a profile that names this
image; the daemon reports whether both exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A programming language, and the commands that compile and run its programs.

    Attributes:
        name: SandboxFusion's name for the language.
        policy: the profile under which the program runs.
        version: the version of the interpreter or compiler in the image.
        file: the name of the file to which the source is written.
        run: the program with its arguments; empty for Python, which the kind `script` runs itself.
        compile: the compiler with its arguments; empty if programs aren't compiled.
        product: the file that the compiler writes.
        piston: Piston's name for the language, then its aliases; empty if Piston doesn't have the language.
        judge0: Judge0's ids for the language. Source: the languages of Judge0 CE 1.13.
        judge0_name: the name that `GET /languages` shows.
    """

    name: str
    policy: str
    version: str
    file: str
    run: Sequence[str] = ()
    compile: Sequence[str] = ()
    product: str = ""
    piston: Sequence[str] = ()
    judge0: Sequence[int] = ()
    judge0_name: str = ""


LOADER = "/lib64/ld-linux-x86-64.so.2"
"""Runs a compiled program, because submitted files have no execute bit."""

EXECUTABLE = (
    "python3.11",
    "-ISc",
    "import os, sys; os.chmod('main', 0o700); os.execv('./main', ['./main', *sys.argv[1:]])",
)
"""Runs a statically linked program, as Go's compiler writes."""
JVM = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx384m", "-Xss64m")
"""Options for Java programs: by default, the virtual machine chooses its heap by the memory of the host."""

LANGUAGES = (
    Language(
        name="python",
        policy="script",
        version="3.11.2",
        file="main.py",
        piston=("python", "py", "py3", "python3"),
        judge0=(71, 92, 100),
        judge0_name="Python (3.11.2)",
    ),
    Language(
        name="pytest",
        policy="testing",
        version="7.2.1",
        file="test_main.py",
        run=("python3.11", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_main.py"),
    ),
    Language(
        name="bash",
        policy="shell",
        version="5.2.15",
        file="main.sh",
        run=("bash", "main.sh"),
        piston=("bash", "sh"),
        judge0=(46,),
        judge0_name="Bash (5.2.15)",
    ),
    Language(
        name="nodejs",
        policy="javascript",
        version="18.20.4",
        file="main.js",
        run=("node", "main.js"),
        piston=("javascript", "node-javascript", "node-js", "js"),
        judge0=(63, 93, 97),
        judge0_name="JavaScript (Node.js 18.20.4)",
    ),
    Language(
        name="cpp",
        policy="cpp",
        version="12.2.0",
        file="main.cpp",
        run=(LOADER, "./main"),
        compile=("g++", "-std=c++17", "-O2", "-pthread", "-o", "main", "main.cpp"),
        product="main",
        piston=("c++", "cpp", "g++"),
        judge0=(52, 53, 54, 76, 105),
        judge0_name="C++ (GCC 12.2.0)",
    ),
    Language(
        name="c",
        policy="cpp",
        version="12.2.0",
        file="main.c",
        run=(LOADER, "./main"),
        compile=("gcc", "-std=c17", "-O2", "-pthread", "-o", "main", "main.c", "-lm"),
        product="main",
        piston=("c", "gcc"),
        judge0=(48, 49, 50, 75, 103),
        judge0_name="C (GCC 12.2.0)",
    ),
    Language(
        name="go",
        policy="go",
        version="1.19.8",
        file="main.go",
        run=EXECUTABLE,
        compile=("go-compile", "main.go", "main"),
        product="main",
        piston=("go", "golang"),
        judge0=(60, 95, 106, 107),
        judge0_name="Go (1.19.8)",
    ),
    Language(
        name="rust",
        policy="rust",
        version="1.63.0",
        file="main.rs",
        run=(LOADER, "./main"),
        compile=(
            *(
                "rustc",
                "--edition=2021",
                "-C",
                "opt-level=1",
                "-C",
                "debug-assertions=on",
                "-C",
                "strip=symbols",
            ),
            *("-o", "main", "main.rs"),
        ),
        product="main",
        piston=("rust", "rs"),
        judge0=(73, 108),
        judge0_name="Rust (1.63.0)",
    ),
    Language(
        name="java",
        policy="java",
        version="17.0.19",
        file="Main.java",
        run=("java", *JVM, "-ea", "-cp", "main.jar", "Main"),
        compile=("java-compile", "main.jar", "Main.java"),
        product="main.jar",
        piston=("java",),
        judge0=(62, 91),
        judge0_name="Java (OpenJDK 17.0.19)",
    ),
)

BY_NAME = {language.name: language for language in LANGUAGES}
LANGUAGE_BY_PISTON = {name: language for language in LANGUAGES for name in language.piston}
LANGUAGE_BY_JUDGE0 = {number: language for language in LANGUAGES for number in language.judge0}
