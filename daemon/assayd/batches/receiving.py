"""Reads and records the lines of a batch as they arrive, a few at a time. Recorded lines are kept."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from assayd.attempts.admission import Admission
from assayd.byte_budget import SMALL_BYTES, ByteBudget
from assayd.clock import IdSource
from assayd.documents import PayloadCaps, digest, read_submission
from assayd.errors import AssaydError, RequestError
from assayd.kind import Kind
from assayd.model.attempt import Attempt, Failure
from assayd.model.batch import Batch, BatchLine, ReceivedLines
from assayd.model.policy import ExecutionPolicy
from assayd.model.submission import Submission
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

GetImageDigest = Callable[[str], Awaitable[str]]
"""Returns the digest of the image to which a name currently refers. Raises: EngineError."""

AT_ONCE = 256
"""The maximum number of lines that are parsed together and recorded in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCaps:
    """Limits of the length and content of a line, and of the number of lines in a batch."""

    line_bytes: int = 16 * 2**20
    payload: PayloadCaps = PayloadCaps()
    lines: int = 100_000


class LineReceiver:
    """The parser and recorder of the lines in one request body."""

    def __init__(  # noqa: PLR0913  (its parts, by name)
        self,
        batch: Batch,
        *,
        store: DatabaseBatchStore,
        jobs: DatabaseJobStore,
        admission: Admission,
        budget: ByteBudget,
        kinds: Mapping[str, Kind],
        ids: IdSource,
        image_digest: GetImageDigest,
        caps: LineCaps,
        sees: Callable[[Attempt], bool],
    ) -> None:
        self._batch = batch
        self._store = store
        self._jobs = jobs
        self._admission = admission
        self._budget = budget
        self._kinds = kinds
        self._ids = ids
        self._image_digest = image_digest
        self._caps = caps
        self._sees = sees
        self._images: dict[str, str] = {}

    async def receive_lines(self, body: AsyncIterator[bytes]) -> AsyncIterator[ReceivedLines]:
        """Yield the results of the lines in groups. Each group is recorded before it is yielded.

        Raises: RequestError, if there are too many lines or a quota is exceeded. The lines before are kept.
        """
        cutter = LineSplitter(self._caps.line_bytes)
        with self._budget.reserve_growing(self._batch.peer.uid) as held:
            async for data in body:
                held.resize(cutter.held + len(data))
                async for received in self._record_lines(list(cutter.feed(data))):
                    yield received
                held.resize(cutter.held)
            async for received in self._record_lines(list(cutter.end())):
                yield received

    async def _record_lines(self, raw: Sequence[RawLine]) -> AsyncIterator[ReceivedLines]:
        for first in range(0, len(raw), AT_ONCE):
            group = raw[first : first + AT_ONCE]
            if group[-1].number > self._caps.lines:
                message = f"a batch has at most {self._caps.lines} lines; send the rest as another batch"
                raise RequestError("too_large", message)
            size = sum(len(line.text or b"") for line in group)
            await self._admission.require_quota(self._batch.peer.uid, size)
            yield await self._store.add(self._batch.id, await self._read_lines(group))

    async def _read_lines(self, raw: Sequence[RawLine]) -> list[BatchLine]:
        """Parse lines in a thread, because parsing a group takes as long as parsing a large submission.

        Many lines or long ones wait for the user's turn to parse, so that uploads leave others time.
        """
        read = partial(read_submission, kinds=self._kinds, caps=self._caps.payload)
        most_bytes = self._caps.line_bytes
        size = sum(len(line.text or b"") for line in raw)
        uid = self._batch.peer.uid
        async with self._budget.reading(size, uid), AsyncExitStack() as turn:
            if size > SMALL_BYTES:
                await turn.enter_async_context(self._budget.wait_to_parse(uid, size))
            found = await asyncio.to_thread(lambda: [parse_line(line, read, most_bytes) for line in raw])
        return [await self._build_line(line) for line in found]

    async def _build_line(self, line: ParsedLine) -> BatchLine:
        number, submission = line.raw.number, line.submission
        try:
            if submission is None:
                raise line.refusal or RequestError("malformed", "the line can't be read")
            policy = self._admission.policy(submission)
            await self._check_parent(submission)
            await self._admission.check_webhook(submission.webhook, self._batch.peer.uid)
        except RequestError as refusal:
            failure = Failure(code=refusal.code, message=refusal.message)
            known = submission.input_digest if submission is not None else line.raw.digest
            return BatchLine(number=number, input_digest=known, error=failure)
        # A webhook message is about a single attempt.
        alone = not self._batch.dedupe or submission.webhook is not None
        run_key = None if alone else await self._build_run_key(submission, policy)
        return BatchLine(
            number=number,
            input_digest=submission.input_digest,
            document=submission.document,
            attempt_id=self._ids.new(),
            run_key=run_key,
        )

    async def _check_parent(self, submission: Submission) -> None:
        if submission.parent_id is not None:
            parent = await self._jobs.get(submission.parent_id)
            if parent is None or not self._sees(parent):
                raise RequestError("invalid", "parent_id: the attempt doesn't exist", field="parent_id")

    async def _build_run_key(self, submission: Submission, policy: ExecutionPolicy) -> str:
        """Return the key under which lines share an attempt, derived from input, policy and image."""
        image = self._kinds[submission.kind].select_image(policy)
        if image not in self._images:
            self._images[image] = await self._build_image_key(image)
        parts = (submission.input_digest, policy.digest, self._images[image])
        return digest(b"\n".join(part.encode() for part in parts))

    async def _build_image_key(self, name: str) -> str:
        try:
            return await self._image_digest(name)
        except AssaydError:  # the engine is unavailable: compare only the lines of this request
            return hashlib.sha256(self._ids.new().encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLine:
    """A line with its number, from 1. `text` is None if the line is too long. `digest` covers its bytes."""

    number: int
    text: bytes | None
    digest: str


@dataclass(slots=True)
class _IncompleteLine:
    """A line whose end hasn't arrived yet."""

    text: bytearray = field(default_factory=bytearray)
    length: int = 0
    seen: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, piece: bytes, most_bytes: int) -> None:
        self.length += len(piece)
        self.seen.update(piece)
        if self.length <= most_bytes:
            self.text += piece
        else:
            self.text.clear()


class LineSplitter:
    """A splitter of bytes into lines. Empty lines are counted but skipped.

    Args:
        most_bytes: the maximum length of a line; the text of a longer line isn't kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = _IncompleteLine()
        self._number = 0

    @property
    def held(self) -> int:
        """Return the number of buffered bytes of the incomplete line."""
        return len(self._rest.text)

    def feed(self, data: bytes) -> Iterator[RawLine]:
        """Yield the lines that are completed by these bytes."""
        *ended, last = data.split(b"\n")
        for piece in ended:
            self._rest.add(piece, self._most_bytes)
            yield from self.end()
        self._rest.add(last, self._most_bytes)

    def end(self) -> Iterator[RawLine]:
        """Yield the line received so far, if any. At the end of the input, it needs no line break."""
        rest, self._rest = self._rest, _IncompleteLine()
        self._number += 1
        if rest.length > self._most_bytes:
            yield RawLine(number=self._number, text=None, digest=rest.seen.hexdigest())
        elif rest.text.strip():
            yield RawLine(number=self._number, text=bytes(rest.text), digest=rest.seen.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLine:
    """A line with its submission, or with the reason why it can't be parsed."""

    raw: RawLine
    submission: Submission | None = None
    refusal: RequestError | None = None


def parse_line(raw: RawLine, read: Callable[[bytes], Submission], most_bytes: int) -> ParsedLine:
    """Parse one line. Return any error as this line's result."""
    if raw.text is None:
        refusal = RequestError("too_large", f"the line is longer than {most_bytes} bytes")
        return ParsedLine(raw=raw, refusal=refusal)
    try:
        return ParsedLine(raw=raw, submission=read(raw.text))
    except RequestError as refusal:
        return ParsedLine(raw=raw, refusal=refusal)
