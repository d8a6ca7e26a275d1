"""Implements the client of OpenAI's chat completions API, which other servers also implement."""

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

TYPE = "openai"
KEY_VARIABLE = "OPENAI_API_KEY"
BASE_URL = "https://api.openai.com/v1"


class _Content(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Content
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: object = None
    completion_tokens: object = None


class _Completion(BaseModel):
    """The response fields that this client uses. Compatible servers omit many other fields."""

    choices: list[_Choice]
    usage: _Usage | None = None


class OpenAIApi:
    """A client for OpenAI's API and for compatible servers. Implements `api.VendorApi`."""

    def __init__(self, account: ModelAccount) -> None:
        import_vendor_library("openai", account=account, loggers=("openai",))
        import openai

        self._account = account
        self._client = openai.AsyncOpenAI(
            api_key=account.key.text,
            base_url=account.base_url or BASE_URL,
            max_retries=0,
            http_client=create_size_limited_client(),
        )

    async def ask(self, request: FixRequest, *, timeout_s: float) -> bytes:
        """Call the API once without retries, and return the response body.

        Raises: ProviderError, if the call fails or takes longer than `timeout_s` seconds.
        """
        import httpx2
        import openai

        most = self._account.max_tokens if self._account.max_tokens is not None else openai.omit
        own = self._account.base_url is None
        try:
            async with self._client.chat.completions.with_streaming_response.create(
                model=self._account.model,
                messages=[
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.user},
                ],
                # The vendor's newer models know only the first name, and many other servers only the second.
                max_completion_tokens=most if own else openai.omit,
                max_tokens=openai.omit if own else most,
                # Not every compatible server accepts this; some report tokens anyway.
                stream_options={"include_usage": True} if own else openai.omit,
                stream=True,
                timeout=timeout_s,
            ) as raw:
                return await receive_response_body(raw.http_response, extract_event_text, request.heard)
        except openai.APIStatusError as problem:
            raise answers.build_http_status_error(
                self._account,
                problem.status_code,
                said=str(problem),
                reason=problem.code or problem.type,
                again_in_s=answers.parse_retry_after_s(problem.response.headers),
            ) from None  # its text may repeat the request
        except (openai.APITimeoutError, httpx2.TimeoutException) as problem:
            raise answers.timeout_error(self._account, timeout_s) from problem
        except (openai.APIConnectionError, httpx2.HTTPError) as problem:
            raise answers.build_unreachable_error(self._account, problem) from problem

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def parse_response(content: bytes) -> ProviderAnswer:
    """Parse a response body. Raises: ValueError, if the body isn't a valid response."""
    completion = (
        _assemble_stream(content) if is_event_stream(content) else _Completion.model_validate_json(content)
    )
    spent = completion.usage or _Usage()
    usage = ReplyCost(
        input_tokens=parse_token_count(spent.prompt_tokens),
        output_tokens=parse_token_count(spent.completion_tokens),
    )
    if not completion.choices:
        return ProviderAnswer(text="", ending=StopReason.EMPTY, word="no choices", usage=usage)
    choice = completion.choices[0]
    text = choice.message.content or ""
    if choice.message.refusal or choice.finish_reason == "content_filter":
        ending = StopReason.REFUSED
    elif choice.finish_reason == "length":
        ending = StopReason.CUT_OFF
    else:
        ending = StopReason.COMPLETE if text else StopReason.EMPTY
    return ProviderAnswer(text=text, ending=ending, word=choice.finish_reason or "", usage=usage)


def extract_event_text(event: Event) -> str:
    """Return the answer text in a stream event, or an empty string."""
    return get_text(event, "choices", 0, "delta", "content")


def _assemble_stream(content: bytes) -> _Completion:
    """Build a completion from the events of a stream. Raises: ValueError, if the stream is incomplete."""
    events = parse_events(content)
    ended = [text for event in events if (text := get_text(event, "choices", 0, "finish_reason"))]
    if not events or (any(get_nested_value(event, "choices", 0) for event in events) and not ended):
        raise ValueError("the stream is cut short")
    refusal = "".join(get_text(event, "choices", 0, "delta", "refusal") for event in events)
    said = {"content": "".join(map(extract_event_text, events)), "refusal": refusal or None}
    usage = [event["usage"] for event in events if isinstance(event.get("usage"), dict)]
    return _Completion.model_validate(
        {
            "choices": [{"message": said, "finish_reason": ended[-1]}] if ended else [],
            "usage": usage[-1] if usage else None,
        }
    )
