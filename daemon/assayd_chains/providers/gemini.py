"""Implements the client of Google's Gemini API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel

from assayd.errors import ProviderError
from assayd_chains.model import ReplyCost
from assayd_chains.provider import FixRequest
from assayd_chains.providers import answers
from assayd_chains.providers.answers import (
    ModelAccount,
    ProviderAnswer,
    StopReason,
    create_size_limited_client,
    import_vendor_library,
    parse_token_count,
)

if TYPE_CHECKING:
    from google.genai import errors

TYPE = "gemini"
KEY_VARIABLE = "GEMINI_API_KEY"
BASE_URL = "https://generativelanguage.googleapis.com"

_TRUNCATED_REASON = "MAX_TOKENS"
_REFUSAL_REASONS = frozenset({
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"
})  # fmt: skip
_INVALID_KEY_REASON = "API_KEY_INVALID"
"""The reason that the API sends with status 400 where other APIs send status 401."""
_DELAY_PATTERN = re.compile(r"(\d+(?:\.\d+)?)s")


class _Part(BaseModel):
    text: str | None = None
    thought: bool | None = None


class _Content(BaseModel):
    parts: list[_Part] | None = None


class _Candidate(BaseModel):
    content: _Content | None = None
    finishReason: str | None = None  # noqa: N815 - the API's name


class _Feedback(BaseModel):
    blockReason: str | None = None  # noqa: N815 - the API's name


class _Usage(BaseModel):
    promptTokenCount: object = None  # noqa: N815 - the API's name
    candidatesTokenCount: object = None  # noqa: N815 - the API's name


class _Response(BaseModel):
    """The response fields that this client uses."""

    candidates: list[_Candidate] | None = None
    promptFeedback: _Feedback | None = None  # noqa: N815 - the API's name
    usageMetadata: _Usage | None = None  # noqa: N815 - the API's name


class GeminiApi:
    """A client for Gemini's API. Implements `api.VendorApi`."""

    def __init__(self, account: ModelAccount) -> None:
        import_vendor_library("google.genai", account=account, loggers=("google_genai", "google.auth"))
        import_vendor_library("httpx2", account=account, loggers=())
        from google import genai
        from google.genai import types

        self._account = account
        # A separate connection pool: otherwise the library chooses one by the installed packages.
        self._http = create_size_limited_client()
        self._client = genai.Client(
            vertexai=False,
            api_key=account.key.text,
            http_options=types.HttpOptions(
                base_url=account.base_url or BASE_URL, httpx_async_client=self._http
            ),
        )

    async def ask(self, request: FixRequest, *, timeout_s: float) -> bytes:
        """Call the API once without retries, and return the response body.

        Raises: ProviderError, if the call fails or takes longer than `timeout_s` seconds.
        """
        import httpx2
        from google.genai import errors, types

        try:
            response = await self._client.aio.models.generate_content(
                model=self._account.model,
                contents=request.user,
                config=types.GenerateContentConfig(
                    system_instruction=request.system,
                    response_mime_type="application/json",
                    max_output_tokens=self._account.max_tokens,
                    should_return_http_response=True,  # unchanged, because it is parsed elsewhere
                    http_options=types.HttpOptions(timeout=max(int(timeout_s * 1000), 1)),
                ),
            )
            sent = response.sdk_http_response
            return (sent.body or "").encode() if sent is not None else b""
        except errors.APIError as problem:
            raise self._to_provider_error(problem) from None  # its text may repeat the request
        except httpx2.TimeoutException as problem:
            raise answers.timeout_error(self._account, timeout_s) from problem
        except httpx2.HTTPError as problem:
            raise answers.build_unreachable_error(self._account, problem) from problem
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as problem:
            # The library fails on answers outside its protocol.
            raise answers.build_malformed_answer_error(self._account) from problem

    def _to_provider_error(self, problem: errors.APIError) -> ProviderError:
        details = list(_iter_error_details(problem.details))
        if any(detail.get("reason") == _INVALID_KEY_REASON for detail in details):
            return answers.build_invalid_key_error(self._account)
        headers = getattr(problem.response, "headers", {})
        return answers.build_http_status_error(
            self._account,
            problem.code,
            said=str(problem.message),
            reason=problem.status,
            again_in_s=answers.parse_retry_after_s(headers) or _find_retry_delay_s(details),
        )

    async def close(self) -> None:
        """Close all connections."""
        self._client.close()
        await self._http.aclose()


def parse_response(content: bytes) -> ProviderAnswer:
    """Parse a response body. Raises: ValueError, if the body isn't a valid response."""
    response = _Response.model_validate_json(content)
    spent, feedback = response.usageMetadata or _Usage(), response.promptFeedback
    usage = ReplyCost(
        input_tokens=parse_token_count(spent.promptTokenCount),
        output_tokens=parse_token_count(spent.candidatesTokenCount),
    )
    if not response.candidates:
        blocked = (feedback.blockReason if feedback else None) or ""
        ending = StopReason.REFUSED if blocked else StopReason.EMPTY
        return ProviderAnswer(text="", ending=ending, word=blocked or "no candidates", usage=usage)
    candidate = response.candidates[0]
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    word = candidate.finishReason or ""
    if word in _REFUSAL_REASONS:
        ending = StopReason.REFUSED
    elif word == _TRUNCATED_REASON:
        ending = StopReason.CUT_OFF
    else:
        ending = StopReason.COMPLETE if text else StopReason.EMPTY
    return ProviderAnswer(text=text, ending=ending, word=word, usage=usage)


def _iter_error_details(body: object) -> Iterator[dict[str, object]]:
    """Yield the details in an error such as ``{"error": {"details": [{"@type": …, "reason": …}]}}``."""
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("details") if isinstance(error, dict) else None
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _find_retry_delay_s(details: list[dict[str, object]]) -> float | None:
    """Return the pause in seconds that the body requests, e.g.

    ``"retryDelay": "38s"``, or None without one.
    """
    for detail in details:
        found = _DELAY_PATTERN.fullmatch(str(detail.get("retryDelay", "")))
        if found is not None:
            return min(float(found[1]), answers.MAX_RETRY_DELAY_S)
    return None
