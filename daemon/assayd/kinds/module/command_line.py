"""The kind `module` on the command line: how a folder becomes a payload, i.e. the manifest and other files.

The manifest can be YAML with JSON-compatible values and no aliases. Caches and hidden files are omitted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import PurePosixPath
from typing import Any

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, KindCommandLine

command_line = KindCommandLine(
    from_files="assayd.kinds.module.command_line:from_files",
    case="test",
    cases_have_results=False,
)

MANIFESTS = ("manifest.json", "manifest.yaml", "manifest.yml")


def from_files(files: Mapping[str, bytes], options: FileOptions) -> dict[str, object]:
    """Return the payload for a folder.

    Raises: RequestError, with the file or option at fault.
    """
    if options.input is not None or options.extra or options.sample_paths:
        raise RequestError(
            "request.options", "a module accepts only files: remove --input, --option and --sample-path"
        )
    kept = {name: content for name, content in files.items() if not _is_ignored(name)}
    found = [name for name in MANIFESTS if name in kept]
    if len(found) != 1:
        problem = f"both {' and '.join(found)}" if found else "no manifest.json, nor manifest.yaml"
        message = f"a module needs one manifest, an adapter and tests; the folder has {problem}"
        raise RequestError("request.files", message, field="payload.manifest")
    manifest = _read_manifest(found[0], _decode_text(found[0], kept.pop(found[0])))
    return {
        "manifest": manifest,
        "files": {name: _decode_text(name, content) for name, content in kept.items()},
    }


def _is_ignored(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(part == "__pycache__" or part.startswith(".") for part in parts)


def _decode_text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} isn't UTF-8 text", field=name) from problem


def _read_manifest(name: str, text: str) -> dict[str, object]:
    try:
        if name.endswith(".json"):
            value = json.loads(text, object_pairs_hook=_reject_duplicate_keys)
        else:
            value = _parse_yaml(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as problem:
        message = f"{name} can't be read: {' '.join(str(problem).split())}"
        raise RequestError("request.files", message[:500], field=name) from problem
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise RequestError("request.files", f"{name} isn't an object", field=name)
    return value


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _reject_duplicates([name for name, _ in pairs])
    return dict(pairs)


def _reject_duplicates(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"the field {twice[0]!r} is repeated")


def _parse_yaml(text: str) -> object:
    """Parse plain values; dates stay strings. Raises: ValueError, also for repeated keys and aliases."""
    import yaml  # loads slowly, and every command that names this kind imports this module

    class PlainLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            # As JSON, each alias is the whole value: a few lines would become gigabytes.
            if self.check_event(yaml.AliasEvent):
                line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
                raise ValueError(f"line {line} has an alias; write the value itself")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            _reject_duplicates([str(key.value) for key, _ in node.value])
            return super().construct_mapping(node, deep)

    PlainLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, PlainLoader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from problem
