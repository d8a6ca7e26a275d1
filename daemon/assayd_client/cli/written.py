"""The code of an attempt: written to files once it is validated, or printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.kinds import ShownAttempt
from assayd_client.cli.origin import Origin
from assayd_client.cli.terminal import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where the code goes that is validated.

    Attributes:
        out: a file, or a folder for several files; None for nowhere.
        in_place: whether the files that were named get what a repair has changed.
    """

    out: Path | None = None
    in_place: bool = False

    def require_possible(self, repair: str | None, files: Sequence[Path]) -> None:
        """Raise RequestError ``usage`` for options that do not fit, before anything is submitted."""
        if self.in_place and repair is None:
            raise RequestError("usage", "--in-place needs --repair; to write what you submit, use --out FILE")
        if self.in_place and Path("-") in files:
            raise RequestError("usage", "--in-place can't write to standard input; use --out FILE")

    def write(
        self, client: PlainClient, attempt: Document, submission: Mapping[str, Any], origin: Origin
    ) -> None:
        """Write the code of a validated attempt; nothing of another one.

        Raises: RequestError ``file.unwritable``, or ``usage`` if a text is of none of the files.
        """
        if attempt["verdict"] != "validated" or (self.out is None and not self.in_place):
            return
        from assayd_client.cli.generate import texts_of, write_texts

        texts = code_of(client, attempt)
        if self.out is not None:
            write_texts(texts, self.out)
            _say_written(self.out)
        if self.in_place:
            before = texts_of(dict(submission))
            changed = {name: text for name, text in texts.items() if before.get(name) != text}
            for path, text in by_path(changed, origin).items():
                write_texts({"": text}, path)
                _say_written(path)


def code_of(client: PlainClient, attempt: Document) -> dict[str, str]:
    """Return the texts of an attempt by name; a single one has no name. Raises: RequestError ``usage``."""
    from assayd_client.cli.generate import texts_of

    return texts_of(ShownAttempt(client=client, attempt=attempt).submission())


def print_code(client: PlainClient, attempt: Document) -> None:
    """Print the texts of an attempt, one alone as it is; control characters as codes on a terminal."""
    texts = code_of(client, attempt)
    if not texts:
        raise RequestError("usage", f"{attempt['id']} has no text to show; `assay artifacts` has its files")
    for name, text in texts.items():
        if name:
            print(f"==> {plain(name)} <==")
        sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
        if not text.endswith("\n"):
            print()


def by_path(texts: Mapping[str, str], origin: Origin) -> dict[Path, str]:
    """Return texts by the files that they are of."""
    if set(texts) == {""} and len(origin.paths) == 1:
        return {Path(next(iter(origin.paths.values()))): texts[""]}
    unknown = [name for name in texts if name not in origin.paths]
    if unknown:
        message = f"--in-place: none of the files named is {unknown[0] or 'the code'}; use --out DIR"
        raise RequestError("usage", message)
    return {Path(origin.paths[name]): text for name, text in texts.items()}


def _say_written(path: Path) -> None:
    print(f"assay: the validated code is in {plain(str(path))}", file=sys.stderr)
