"""The parts of prompts that all kinds share: answer formats, examples, and the policy's allowances.

The allowances describe allowed imports, reachable hosts, and rejected names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assayd.model.policy import ExecutionPolicy, ImportMode, NetworkMode, SubmoduleRule
from assayd.model.prompting import PromptContext

_FORMS = {
    "code": '"<the whole text>"',
    "files": '{"<file name>": "<its whole text>", …}',
    "steps": '[{"name": "…", "type": "bash or sql", "content": "…"}, …]',
}


def describe_answer_form(form: str) -> str:
    """Return the JSON form of an answer with ``code``, ``files`` or ``steps``."""
    return f'{{"{form}": {_FORMS[form]}, "reason": "<what it does>"}}'


def describe_file_head(path: str, content: bytes, most: int) -> PromptContext:
    """Return at most the first `most` bytes of a file for a prompt, with its path and size as the title."""
    size = f"{len(content)} bytes" if len(content) <= most else f"first {most} of {len(content)} bytes"
    return PromptContext(title=f"file {path} ({size})", text=content[:most].decode("utf-8", "replace"))


_MAX_HOSTS = 20


def describe_permissions(
    policy: ExecutionPolicy | None,
    *,
    offer: str | None = None,
    also: Sequence[str] = (),
    imports: bool = True,
) -> Iterator[str]:
    """Yield sentences about allowed imports and reachable hosts. Yield nothing without a policy.

    Args:
        policy: the effective policy.
        offer: the modules of the image, if imports aren't restricted.
        also: additional modules that code can import.
        imports: whether imports are relevant; for a bash step, they aren't.
    """
    if policy is None:
        return
    if imports:
        yield from _describe_imports(policy, offer, also)
    hosts = sorted(policy.network.hosts)
    if policy.network.mode is NetworkMode.BLOCKED or not hosts:
        yield "Network access is blocked."
    else:
        more = len(hosts) - _MAX_HOSTS
        shown = ", ".join(hosts[:_MAX_HOSTS]) + (f" and {more} more" if more > 0 else "")
        ports = ", ".join(map(str, sorted(policy.network.ports)))
        yield f"Only these hosts can be reached: {shown} (port {ports})."


_RARE_MODULES = frozenset({
    "abc", "argparse", "array", "ast", "async_timeout", "binascii", "bisect", "bz2", "certifi",
    "charset_normalizer", "cmath", "codecs", "concurrent.futures", "configparser", "contextlib",
    "contextvars", "copy", "difflib", "email", "errno", "fnmatch", "fractions", "getopt", "getpass", "glob",
    "gzip", "heapq", "html", "importlib.metadata", "ipaddress", "json.decoder", "locale", "logging", "lzma",
    "mimetypes", "multidict", "ntpath", "numbers", "operator", "optparse", "platform", "posixpath",
    "pprint", "queue", "random", "reprlib", "secrets", "shlex", "shutil", "socket", "ssl", "stat", "struct",
    "tarfile", "tempfile", "textwrap", "threading", "traceback", "types", "typing_extensions",
    "unicodedata", "urllib3", "uuid", "warnings", "weakref", "xml.dom", "xml.sax", "yarl", "zipfile",
    "zlib",
})  # fmt: skip
"""Modules that submissions rarely import: a prompt that names them all is a quarter longer."""


def reduce_to_usual_imports(policy: ExecutionPolicy) -> ExecutionPolicy:
    """Return a policy for display in prompts, without allowed modules that code rarely imports."""
    return replace(policy, imports=replace(policy.imports, allowed=policy.imports.allowed - _RARE_MODULES))


def _describe_imports(policy: ExecutionPolicy, offer: str | None, also: Sequence[str]) -> Iterator[str]:
    imports = policy.imports
    if imports.mode is ImportMode.ENFORCE and not policy.is_report_only:
        allowed = {*also, *(module for module in imports.allowed if imports.allows(module))}
        if imports.submodules is SubmoduleRule.INHERIT:
            allowed -= {name for name in allowed if name.rpartition(".")[0] in allowed}
        yield f"Import only: {', '.join(sorted(allowed)) or 'nothing'}."
        if imports.denied and imports.enforce_forbidden:
            yield f"Not allowed: {', '.join(sorted(imports.denied))}."
    elif offer is not None:
        added = "" if policy.image is None else f", and what image {policy.image} adds to it"
        yield f"The image has {offer}{added}."
