"""Implements the client of Anthropic's Messages API."""

from __future__ import annotations

from pydantic import BaseModel

from assayd_chains.model import ReplyCost
from assayd_chains.provider import FixRequest
from assayd_chains.providers import answers
from assayd_chains.providers.answers import (
    Event,
    ModelAccount,
    ProviderAnswer,
    StopReason,
    create_size_limited_client,
    get_nested_value,
    get_text,
    import_vendor_library,
    is_event_stream,
    parse_events,
    parse_token_count,
    receive_response_body,
)

TYPE = "anthropic"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
BASE_URL = "https://api.anthropic.com"
MAX_TOKENS = 16_384
"""The API requires a limit; this one is sufficient for the largest passage in a prompt."""

_CUT_OFF_REASONS = frozenset({"max_tokens", "model_context_window_exceeded"})


class _Block(BaseModel):
    type: str
    text: str = ""


class _Usage(BaseModel):
    input_tokens: object = None
    output_tokens: object = None


class _Message(BaseModel):
    """The response fields that this client uses."""

    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage = _Usage()


class AnthropicApi:
    """A client for Anthropic's API. Implements `api.VendorApi`."""

    def __init__(self, account: ModelAccount) -> None:
        import_vendor_library("anthropic", account=account, loggers=("anthropic",))
        import anthropic

        self._account = account
        self._client = anthropic.AsyncAnthropic(
            api_key=account.key.text,
            base_url=account.base_url or BASE_URL,
            max_retries=0,
            http_client=create_size_limited_client(),
        )

    async def ask(self, request: FixRequest, *, timeout_s: float) -> bytes:
        """Call the API once without retries, and return the response body.

        Raises: ProviderError, if the call fails or takes longer than `timeout_s` seconds.
        """
        import anthropic
        import httpx2

        try:
            async with self._client.messages.with_streaming_response.create(
                model=self._account.model,
                max_tokens=self._account.max_tokens or MAX_TOKENS,
                system=request.system,
                messages=[{"role": "user", "content": request.user}],
                timeout=timeout_s,
                stream=True,
            ) as raw:
                return await receive_response_body(raw.http_response, extract_event_text, request.heard)
        except anthropic.APIStatusError as problem:
            raise answers.build_http_status_error(
                self._account,
                problem.status_code,
                said=str(problem),
                reason=_parse_error_type(problem.body),
                again_in_s=answers.parse_retry_after_s(problem.response.headers),
            ) from None  # its text may repeat the request
        except (anthropic.APITimeoutError, httpx2.TimeoutException) as problem:
            raise answers.timeout_error(self._account, timeout_s) from problem
        except (anthropic.APIConnectionError, httpx2.HTTPError) as problem:
            raise answers.build_unreachable_error(self._account, problem) from problem

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def parse_response(content: bytes) -> ProviderAnswer:
    """Parse a response body. Raises: ValueError, if the body isn't a valid response."""
    message = _assemble_stream(content) if is_event_stream(content) else _Message.model_validate_json(content)
    text = "".join(block.text for block in message.content if block.type == "text")
    if message.stop_reason == "refusal":
        ending = StopReason.REFUSED
    elif message.stop_reason in _CUT_OFF_REASONS:
        ending = StopReason.CUT_OFF
    else:
        ending = StopReason.COMPLETE if text else StopReason.EMPTY
    spent = message.usage
    usage = ReplyCost(
        input_tokens=parse_token_count(spent.input_tokens),
        output_tokens=parse_token_count(spent.output_tokens),
    )
    return ProviderAnswer(text=text, ending=ending, word=message.stop_reason or "", usage=usage)


def extract_event_text(event: Event) -> str:
    """Return the answer text in a stream event, or an empty string."""
    return (
        get_text(event, "delta", "text") if get_nested_value(event, "delta", "type") == "text_delta" else ""
    )


def _assemble_stream(content: bytes) -> _Message:
    """Build a message from the events of a stream. Raises: ValueError, if the stream is incomplete."""
    events = parse_events(content)
    if not events or events[-1].get("type") != "message_stop":
        raise ValueError("the stream is cut short")
    ends = [event for event in events if event.get("type") == "message_delta"]
    usage = [get_nested_value(event, *at, "usage") for event in events for at in ((), ("message",))]
    counted: dict[str, object] = {}
    for one in usage:
        counted |= one if isinstance(one, dict) else {}
    return _Message.model_validate(
        {
            "content": [{"type": "text", "text": "".join(map(extract_event_text, events))}],
            "stop_reason": get_nested_value(ends[-1], "delta", "stop_reason") if ends else None,
            "usage": counted,
        }
    )


def _parse_error_type(body: object) -> str | None:
    """Return the type from an API error such as ``{"error": {"type": "overloaded_error"}}``, or None."""
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("type") if isinstance(error, dict) else None
    return found if isinstance(found, str) else None
