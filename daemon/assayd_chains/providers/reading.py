"""Parses a model's answer in a separate process with limits on time and memory.

    bytes of an answer ─> the vendor's format ─> text ─> patch

If an answer is deeply nested, repetitive or long, parsing can cost far more than its size suggests.
Therefore, the daemon only sends the bytes to the process and receives a small JSON document.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError

from assayd.aio import run_cleanup
from assayd.errors import ProviderError
from assayd_chains.model import ReplyCost
from assayd_chains.provider import Reply
from assayd_chains.providers.answers import ProviderAnswer, StopReason
from assayd_chains.replies import parse_reply

TEXT = "text"
"""The format of an answer that consists only of the model's text."""
CPU_S = 5
WALL_S = 30.0
MEMORY_BYTES = 1024 * 2**20
_END_S = 5.0


class AnswerContent(BaseModel):
    """The content of an answer: the ending and, for a complete answer, a patch or the parsing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ending: StopReason = StopReason.COMPLETE
    word: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    code: str = ""
    files: dict[str, str] = {}
    steps: tuple[dict[str, object], ...] = ()
    reason: str = ""
    question: str = ""
    text: str = ""
    problem: str | None = None

    def build_reply(self, usage: ReplyCost | None = None) -> Reply:
        """Return the reply that a complete answer contains."""
        return Reply(
            code=self.code,
            files=self.files,
            steps=self.steps,
            reason=self.reason,
            usage=usage or self.usage,
            text=self.text,
            question=self.question,
        )

    @property
    def usage(self) -> ReplyCost:
        """Return the token counts that the API reported."""
        return ReplyCost(input_tokens=self.input_tokens, output_tokens=self.output_tokens)


async def parse_in_subprocess(
    form: str, content: bytes, language: str = "", beginning: str = ""
) -> AnswerContent:
    """Parse an answer in a separate process.

    Args:
        form: a vendor's type, or `TEXT`.
        content: the unprocessed answer.
        language: the language of the requested code; see `parse_reply`.
        beginning: the pattern for the beginning of a program in that language; see `parse_reply`.

    Raises: ProviderError ``provider.garbled`` if the answer has another format or is too expensive to
    parse; ``provider.reply`` if the answer is complete but contains no patch.
    """
    argv = (sys.executable, "-P", "-m", __name__, form, language, beginning)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=PIPE, stdout=PIPE, env=_build_environment()
        )
    except OSError as problem:
        raise _unreadable_error(f"can't be read now: {problem.strerror}") from problem
    try:
        printed, _ = await asyncio.wait_for(process.communicate(content), WALL_S)
        found = AnswerContent.model_validate_json(printed)
    except (TimeoutError, ValidationError, BrokenPipeError, ConnectionResetError) as problem:
        raise _unreadable_error(f"exceeds {CPU_S} s or {MEMORY_BYTES >> 20} MiB of reading") from problem
    finally:
        await run_cleanup(_kill_process(process), timeout_s=_END_S)
    if found.problem is not None:
        code, _, message = found.problem.partition(": ")
        raise ProviderError(code, message, retryable=True)
    return found


def _build_environment() -> Mapping[str, str]:
    names = ("PATH", "LANG", "PYTHONPATH")
    return {name: os.environ[name] for name in names if name in os.environ}


async def _kill_process(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _unreadable_error(what: str) -> ProviderError:
    return ProviderError("provider.garbled", f"the answer {what}", retryable=True)


def parse_answer(form: str, content: bytes, language: str = "", beginning: str = "") -> AnswerContent:
    """Return the content of an answer in a vendor's format (`anthropic`, `openai`, …).

    This function blocks and has no timeout.
    """
    try:
        answer = _load_response_parsers()[form](content)
        found = AnswerContent(
            ending=answer.ending,
            word=answer.word[:64],
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
        )
        if answer.ending is not StopReason.COMPLETE:
            return found
        patch = parse_reply(answer.text, language, beginning)
        read = {name: getattr(patch, name) for name in ("code", "files", "steps", "reason", "question")}
        return found.model_copy(update={**read, "text": answer.text})
    except ProviderError as problem:
        return AnswerContent(problem=f"{problem.code}: {problem.message}")
    except (ValueError, RecursionError, MemoryError):
        return AnswerContent(problem="provider.garbled: the answer can't be read")


def _load_response_parsers() -> Mapping[str, Callable[[bytes], ProviderAnswer]]:
    from assayd_chains.providers import anthropic, gemini, openai

    return {
        TEXT: lambda content: ProviderAnswer(
            text=content.decode("utf-8", "replace"), ending=StopReason.COMPLETE
        ),
        anthropic.TYPE: anthropic.parse_response,
        gemini.TYPE: gemini.parse_response,
        openai.TYPE: openai.parse_response,
    }


def main() -> int:
    """Parse an answer from standard input, and write its content as JSON to standard output."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    form, language, beginning = sys.argv[1:]
    found = parse_answer(form, sys.stdin.buffer.read(), language, beginning)
    sys.stdout.write(json.dumps(found.model_dump(mode="json")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
