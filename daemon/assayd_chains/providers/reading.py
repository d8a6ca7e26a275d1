"""Parses a model's answer in a separate process with limits on time and memory.

    bytes of an answer ─> the vendor's format ─> text ─> patch

If an answer is deeply nested, repetitive or long, parsing can cost far more than its size suggests.
Therefore, the daemon only sends the bytes to the process and receives a small JSON document.

The text contains either a JSON object {code | files | steps, reason}, anywhere in the text, or only code. A
text without such an object may be a question, as the JSON object {question}. A comma before a closing bracket
is ignored. The older names `patched_code` and `fix_reason` are accepted as well. The text is untrusted.
Therefore, it is limited in size, parsed without running code, and rejected unless it contains exactly one
answer.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from assayd.aio import run_cleanup
from assayd.errors import ProviderError
from assayd_chains.model import ReplyCost
from assayd_chains.provider import Reply
from assayd_chains.providers.answers import ProviderAnswer, StopReason

MAX_REPLY_CHARS = 2 * 2**20
MAX_REASON_CHARS = 2000
MAX_JSON_STARTS = 50
"""Maximum number of braces to try as the beginning of the JSON object."""

_FENCE_MARKER = "```"
_CODE_START_PATTERNS = {
    "bash": re.compile(r"#!|set -|for |while |if |awk |sed |grep |sort |cat |printf |echo "),
    "sql": re.compile(r"--|WITH\b|SELECT\b|INSERT\b|UPDATE\b|DELETE\b|CREATE\b|ALTER\b", re.IGNORECASE),
}
"""Patterns for the beginning of a program in languages without a parser here; kinds add others."""
_COMMA_PATTERN = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
"""Matches a string, closed or not, or a comma before a closing bracket, in linear time (possessive)."""

TEXT = "text"
"""The format of an answer that consists only of the model's text."""
MAX_CPU_S = 5
MAX_WALL_S = 30.0
MAX_MEMORY_BYTES = 1024 * 2**20
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPatch:
    """The proposal of a model (`code`, `files` by name, or `steps`), or a `question` to the user."""

    code: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Mapping[str, object], ...] = ()
    reason: str
    question: str = ""


def parse_reply(text: str, language: str = "", beginning: str = "") -> ReplyPatch:
    """Return the patch in a reply that consists of JSON, of JSON in a fence or in prose, or of code.

    Args:
        text: the reply.
        language: the language of the passage; by default, code alone is accepted only in a fence.
        beginning: the pattern for the beginning of a program in that language; see `Kind.beginning`.

    Raises: ProviderError ``provider.reply`` (retryable) if the reply contains no patch; the message
    describes the format error without the reply's content.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _build_invalid_reply_error("is too long")
    blocks = list(_iter_fenced_blocks(text))
    question = None
    for candidate in _iter_json_candidates(text, [block for _, block in blocks]):
        if (patch := _parse_patch(candidate)) is not None:
            return patch
        question = question or _parse_question(candidate)
    if question is not None:
        return question
    if (code := extract_code(text, blocks, language, beginning)) and _is_encodable(code):
        return ReplyPatch(code=code, reason="")
    raise _build_invalid_reply_error(_describe_form_error(text, blocks))


def _describe_form_error(text: str, blocks: Sequence[tuple[str, str]]) -> str:
    """Return a phrase for an error message that describes why a reply contains no patch."""
    if not text.strip():
        return "is empty"
    missing = 'has no JSON object with "code", "files" or "steps", and "reason"'
    likeliest = next((block for _, block in blocks if block.startswith("{")), text.strip())
    if not likeliest.startswith("{"):
        return f"{missing}; it has {len(blocks)} fenced blocks" if len(blocks) > 1 else missing
    try:
        json.loads(likeliest)
    except RecursionError:
        return f"{missing}: it is nested too deep"
    except ValueError as problem:
        return f"{missing}: {problem}" if isinstance(problem, json.JSONDecodeError) else missing
    return missing


def _iter_json_candidates(text: str, blocks: Sequence[str]) -> Iterator[object]:
    """Yield every possible JSON object in the text, beginning with the most likely one."""
    decoder = json.JSONDecoder()
    for place in (text.strip(), *blocks):
        for form in (place, _COMMA_PATTERN.sub(lambda found: found[1] or "", place)):
            with suppress(ValueError, RecursionError):
                yield json.loads(form)
                break
    start = text.find("{")
    for _ in range(MAX_JSON_STARTS):
        if start < 0:
            return
        with suppress(ValueError, RecursionError):
            yield decoder.raw_decode(text, start)[0]
        start = text.find("{", start + 1)


def _iter_fenced_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the info word and the content of each closed fence, found in one pass over the lines."""
    inside: list[str] | None = None
    word = ""
    for line in text.split("\n"):
        info = line[len(_FENCE_MARKER) :].rstrip(" \t") if line.startswith(_FENCE_MARKER) else None
        if inside is None:
            if info is not None and (not info or (info.isascii() and info.isalpha())):
                inside, word = [], info
        elif info == "":
            yield word, "\n".join(inside).strip()
            inside = None
        else:
            inside.append(line)


def _parse_patch(candidate: object) -> ReplyPatch | None:
    """Return the code, files or steps of an object, preferred in this order, or None."""
    if not isinstance(candidate, dict):
        return None
    reason = candidate.get("reason", candidate.get("fix_reason", ""))
    code = candidate.get("code", candidate.get("patched_code", ""))
    files, steps = candidate.get("files", {}), candidate.get("steps", [])
    if not (
        isinstance(reason, str) and isinstance(code, str) and _is_file_mapping(files) and _is_step_list(steps)
    ):
        return None
    if not (code.strip() or files or steps) or not _is_encodable(candidate):
        return None
    reason = "".join(c if c.isprintable() else " " for c in reason)
    return ReplyPatch(code=code, files=files, steps=tuple(steps), reason=reason[:MAX_REASON_CHARS])


def _parse_question(candidate: object) -> ReplyPatch | None:
    """Return the printable, truncated question in a JSON object, or None."""
    question = candidate.get("question") if isinstance(candidate, dict) else None
    if not isinstance(question, str) or not question.strip() or not _is_encodable(question):
        return None
    text = "".join(c if c.isprintable() else " " for c in question.strip())
    return ReplyPatch(reason="", question=text[:MAX_REASON_CHARS])


def _is_file_mapping(files: object) -> bool:
    return isinstance(files, dict) and all(isinstance(text, str) for text in files.values())


def _is_step_list(steps: object) -> bool:
    return isinstance(steps, list) and all(isinstance(step, dict) for step in steps)


def _is_encodable(value: object) -> bool:
    """Return whether all strings in a value are valid Unicode, i.e. without lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _build_invalid_reply_error(why: str) -> ProviderError:
    return ProviderError("provider.reply", f"the reply {why}", retryable=True)


def extract_code(text: str, blocks: Sequence[tuple[str, str]], language: str, beginning: str = "") -> str:
    """Return the code of an answer without a JSON object, or an empty string if the code is ambiguous.

    Args:
        text: the whole answer.
        blocks: the closed fences of the answer, each with the word after the opening marks.
        language: the language of the passage.
        beginning: the pattern for the beginning of a program in that language; see `Kind.beginning`.
    """
    if blocks:
        [(info, block), *others] = blocks
        meant_as_json = info.lower().startswith("json") or (not info and block.startswith(("{", "[")))
        return "" if others or meant_as_json else _ensure_trailing_newline(block)
    return _ensure_trailing_newline(text) if _is_code_in_language(text.strip(), language, beginning) else ""


def _ensure_trailing_newline(code: str) -> str:
    return code.strip("\n") + "\n" if code.strip() else ""


def _is_code_in_language(text: str, language: str, beginning: str) -> bool:
    if language == "python":
        return _is_python(text)
    pattern = re.compile(beginning) if beginning else _CODE_START_PATTERNS.get(language)
    return pattern is not None and pattern.match(text) is not None


def _is_python(text: str) -> bool:
    """Return whether a string is Python code in which some statement isn't just an expression."""
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) for node in tree.body)


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
        raise _build_unreadable_error(f"can't be read now: {problem.strerror}") from problem
    try:
        printed, _ = await asyncio.wait_for(process.communicate(content), MAX_WALL_S)
        found = AnswerContent.model_validate_json(printed)
    except (TimeoutError, ValidationError, BrokenPipeError, ConnectionResetError) as problem:
        raise _build_unreadable_error(
            f"exceeds {MAX_CPU_S} s or {MAX_MEMORY_BYTES >> 20} MiB of reading"
        ) from problem
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


def _build_unreadable_error(what: str) -> ProviderError:
    return ProviderError("provider.garbled", f"the answer {what}", retryable=True)


def parse_answer(form: str, content: bytes, language: str = "", beginning: str = "") -> AnswerContent:
    """Return the content of an answer in a vendor's format (`anthropic`, `openai`, …).

    A parsing error is returned as `problem`. This function blocks and has no timeout.
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
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    form, language, beginning = sys.argv[1:]
    found = parse_answer(form, sys.stdin.buffer.read(), language, beginning)
    sys.stdout.write(json.dumps(found.model_dump(mode="json")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
