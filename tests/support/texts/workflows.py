"""Workflows that tests run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SLOW = "import time\ntime.sleep({seconds})\n"


def node(
    name: str, code: str, inputs: Mapping[str, object] | None = None, **more: object
) -> dict[str, object]:
    """Return a code node."""
    return {"id": name, "code": code, "inputs": dict(inputs or {}), **more}


def workflow(nodes: Sequence[Mapping[str, object]], outputs: Mapping[str, str], **more: object) -> str:
    """Return the text of a workflow, as YAML that a person could have written."""
    lines = [f"{name}: {value}" for name, value in more.items()]
    lines.append("nodes:")
    for one in nodes:
        lines.append(f"  - id: {one['id']}")
        for name, value in one.items():
            if name == "code":
                lines += ["    code: |", *(f"      {line}" for line in str(value).splitlines())]
            elif name == "inputs" and not value:
                continue
            elif name == "inputs":
                lines += ["    inputs:", *(f"      {key}: {given}" for key, given in value.items())]  # type: ignore[attr-defined]
            elif name != "id":
                lines.append(f"    {name}: {value}")
    lines += ["outputs:", *(f"  {name}: {source}" for name, source in outputs.items())]
    return "\n".join(lines) + "\n"


def diamond(branches: int = 10, *, slow_s: float = 0.0, broken: Sequence[int] = ()) -> str:
    """Return a workflow of a first node, branches, and a last one; the first branch takes its time."""
    nodes = [node("load", "n: int\nresult: list[int] = list(range(n))", {"n": 4})]
    for number in range(branches):
        code = f"rows: list[int]\nresult: int = sum(rows) + {'1 // 0' if number in broken else number}"
        nodes.append(
            node(
                f"branch{number}",
                (SLOW.format(seconds=slow_s) if slow_s and not number else "") + code,
                {"rows": "load.result"},
            )
        )
    inputs = {f"part{number}": f"branch{number}.result" for number in range(branches)}
    code = "\n".join([*(f"{name}: int" for name in inputs), f"result: int = {' + '.join(inputs)}"])
    return workflow([*nodes, node("join", code, inputs)], {"total": "join.result"}, name="diamond")
