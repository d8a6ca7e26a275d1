"""Write the results of a batch: JSON lines, a summary, JUnit and SARIF; one pass, an item at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.reports import JunitWriter, SarifWriter
from assayd_client.cli.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutputs:
    """Where results go beside the screen."""

    folder: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    as_json: bool = False


def write_files(client: PlainClient, batch: Document, source: Path, outputs: BatchOutputs) -> Summary:
    """Write whatever is wanted, and return the summary.

    Raises: RequestError ``file.unwritable``.
    """
    try:
        with ExitStack() as files:
            return _write(client, batch, source, outputs, files)
    except OSError as error:
        raise RequestError("file.unwritable", f"{error.filename}: {error.strerror}") from error


def _write(
    client: PlainClient, batch: Document, source: Path, outputs: BatchOutputs, files: ExitStack
) -> Summary:
    summary, folder = Summary(), outputs.folder
    adders: list[Callable[[Document], None]] = [summary.add]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        lines = _opened(folder / "results.jsonl", files)
        adders.append(lambda result: print(json.dumps(result, ensure_ascii=False), file=lines))
    if outputs.junit is not None:
        adders.append(files.enter_context(JunitWriter(_opened(outputs.junit, files), batch)).add)
    if outputs.sarif is not None:
        rules = [rule for kind in client.kinds()["kinds"] for rule in kind["rules"]]
        adders.append(files.enter_context(SarifWriter(_opened(outputs.sarif, files), source, rules)).add)
    for result in client.batch_results(batch["id"]):
        for add in adders:
            add(result)
    if folder is not None:
        text = json.dumps(summary.document(batch), indent=1)
        (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def _opened(path: Path, files: ExitStack) -> TextIO:
    return files.enter_context(path.open("w", encoding="utf-8"))
