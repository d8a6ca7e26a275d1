"""APIs of models on the loopback: what the vendors' servers take and answer, word for word where it is read.

A server answers from a script and remembers what it was asked. A wrong path or key gets what it would there.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

KEY = "sk-live-0123456789abcdef"
MODEL = "model-1"
Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canned:
    """One answer, JSON or bytes; `cut` bytes are missing at its end, and `never` keeps the caller waiting."""

    status: int = 200
    body: Json | bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The form of one vendor's API: its path, its answers and failures, and the fields of its requests."""

    type: str
    path: str
    base: str
    key_of: Callable[[Mapping[str, str]], str]
    answer: Callable[[str], Json]
    cut_off: Callable[[], Json]
    refusal: Callable[[], Json]
    empty: Json
    failure: Callable[[int, str], Json]
    said_to: Callable[[Json], tuple[str, str]]
    """Gives system and user text of a request."""
    streamed: Callable[[str], bytes] = lambda _: b""
    """Gives an answer as server-sent events, for those that stream."""


class ModelApi:
    """A running server that answers from `script`, in order."""

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor
        self.script: list[Canned] = []
        self.asked: list[Asked] = []
        self.base_url = ""
        self._connections: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append((asyncio.current_task(), writer))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                canned = self._canned(asked)
                if canned.never:
                    await reader.read()  # until the caller hangs up
                    return
                writer.write(_response(canned))
                await writer.drain()

    async def close(self) -> None:
        """Close all connections."""
        for task, writer in self._connections:
            task.cancel()
            await asyncio.wait([task])
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _canned(self, asked: Asked) -> Canned:
        if asked.path.partition("?")[0] != self.vendor.path:
            return Canned(status=404, body=self.vendor.failure(404, f"no such path: {asked.path}"))
        if self.vendor.key_of(asked.headers) != KEY:
            wrong = self.vendor.key_of(asked.headers)
            return Canned(status=401, body=self.vendor.failure(401, f"Incorrect API key provided: {wrong}"))
        return self.script.pop(0)


@asynccontextmanager
async def model_api(vendor: Vendor) -> AsyncIterator[ModelApi]:
    """Serve on a loopback port while the body runs."""
    api = ModelApi(vendor)
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    api.base_url = f"http://127.0.0.1:{port}{vendor.base}"
    try:
        yield api
    finally:
        server.close()
        await api.close()
        await server.wait_closed()


@contextmanager
def model_api_in_a_thread(vendor: Vendor) -> Iterator[ModelApi]:
    """Serve from a thread while the body runs, for a daemon."""
    started: queue.Queue[tuple[ModelApi, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        async with model_api(vendor) as api:
            over = asyncio.Event()
            started.put((api, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    api, loop, over = started.get(timeout=30)
    try:
        yield api
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(path=head[0].split(" ")[1], headers=headers, body=json.loads(body))


def _response(canned: Canned) -> bytes:
    body = canned.body if isinstance(canned.body, bytes) else json.dumps(canned.body).encode()
    body = body[: len(body) - canned.cut]
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "date": "Mon, 04 May 2026 10:20:30 GMT",
        **canned.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {canned.status} Canned\r\n{head}\r\n".encode() + body


def _bearer(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


def _message(text: str, stop_reason: str) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }


def _events(*events: Json | str) -> bytes:
    """Return server-sent events, named by the type of their body, if any."""
    told = [
        (f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else "", event)
        for event in events
    ]
    return "".join(
        f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for name, event in told
    ).encode()


def _iter_response_chunks(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def _streamed_message(text: str) -> bytes:
    block = {"type": "content_block_delta", "index": 0}
    return _events(
        {"type": "message_start", "message": {**_message("", ""), "usage": {"input_tokens": 11}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({**block, "delta": {"type": "text_delta", "text": piece}} for piece in _iter_response_chunks(text)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )


def _streamed_completion(text: str) -> bytes:
    chunk: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def said(delta: Json, finish_reason: str | None = None) -> Json:
        return {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return _events(
        said({"role": "assistant", "content": ""}),
        *(said({"content": piece}) for piece in _iter_response_chunks(text)),
        said({}, "stop"),
        {**chunk, "choices": [], "usage": usage},
        "[DONE]",
    )


ANTHROPIC = Vendor(
    type="anthropic",
    path="/v1/messages",
    base="",
    key_of=lambda headers: headers.get("x-api-key") or _bearer(headers),
    answer=lambda text: _message(text, "end_turn"),
    cut_off=lambda: _message('{"patched_code": "x', "max_tokens"),
    refusal=lambda: _message("", "refusal"),
    empty=_message("", "end_turn"),
    failure=lambda status, text: {
        "type": "error",
        "error": {"type": {401: "authentication_error", 429: "rate_limit_error"}.get(status, "api_error"),
                  "message": text},
    },
    said_to=lambda body: (body["system"], body["messages"][0]["content"]),
    streamed=_streamed_message,
)  # fmt: skip


def _completion(text: str | None, finish_reason: str, refusal: str | None = None) -> Json:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": usage,
    }


OPENAI = Vendor(
    type="openai",
    path="/v1/chat/completions",
    base="/v1",
    key_of=_bearer,
    answer=lambda text: _completion(text, "stop"),
    cut_off=lambda: _completion('{"patched_code": "x', "length"),
    refusal=lambda: _completion(None, "stop", "I can't help with that."),
    empty={**_completion("", "stop"), "choices": []},
    failure=lambda status, text: {
        "error": {"message": text, "type": "invalid_request_error", "param": None,
                  "code": {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)},
    },
    said_to=lambda body: tuple(message["content"] for message in body["messages"]),
    streamed=_streamed_completion,
)  # fmt: skip


def _candidates(*candidates: Json, **more: object) -> Json:
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return {"candidates": list(candidates), "usageMetadata": usage, "modelVersion": MODEL, **more}


def _candidate(text: str, finish_reason: str) -> Json:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"content": content, "finishReason": finish_reason, "index": 0}


GEMINI = Vendor(
    type="gemini",
    path=f"/v1/models/{MODEL}:generateContent",
    base="",
    key_of=lambda headers: headers.get("x-goog-api-key", ""),
    answer=lambda text: _candidates(_candidate(text, "STOP")),
    cut_off=lambda: _candidates(_candidate('{"patched_code": "x', "MAX_TOKENS")),
    refusal=lambda: _candidates(promptFeedback={"blockReason": "PROHIBITED_CONTENT"}),
    empty=_candidates(),
    failure=lambda status, text: {
        "error": {"code": status, "message": text,
                  "status": {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}.get(status, "INTERNAL")},
    },
    said_to=lambda body: (
        body["systemInstruction"]["parts"][0]["text"], body["contents"][0]["parts"][0]["text"]
    ),
)  # fmt: skip

VENDORS = (ANTHROPIC, OPENAI, GEMINI)
