"""Models behind Anthropic's Messages API."""

from __future__ import annotations

from pydantic import BaseModel

from assayd.model.repair import ReplyCost
from assayd.ports.llm import FixRequest
from assayd.repairs.providers import failures
from assayd.repairs.providers.account import Account, load
from assayd.repairs.providers.answer import Ending, ProviderAnswer, tokens
from assayd.repairs.providers.http import bounded_client

TYPE = "anthropic"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
BASE_URL = "https://api.anthropic.com"
MAX_TOKENS = 16_384
"""The API wants a number; this is enough for the largest passage that is shown."""

_CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded"})


class _Block(BaseModel):
    type: str
    text: str = ""


class _Usage(BaseModel):
    input_tokens: object = None
    output_tokens: object = None


class _Message(BaseModel):
    """What is read of an answer."""

    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage = _Usage()


class AnthropicApi:
    """Implements `api.Api`."""

    def __init__(self, account: Account) -> None:
        load("anthropic", account=account, loggers=("anthropic",))
        import anthropic

        self._account = account
        self._client = anthropic.AsyncAnthropic(
            api_key=account.key.text,
            base_url=account.base_url or BASE_URL,
            max_retries=0,
            http_client=bounded_client(),
        )

    async def ask(self, request: FixRequest, *, timeout_s: float) -> bytes:
        """Make one call, without trying again. Raises: ProviderError."""
        import anthropic

        try:
            raw = await self._client.messages.with_raw_response.create(
                model=self._account.model,
                max_tokens=self._account.max_tokens or MAX_TOKENS,
                system=request.system,
                messages=[{"role": "user", "content": request.user}],
                timeout=timeout_s,
            )
        except anthropic.APIStatusError as problem:
            raise failures.refused(
                self._account,
                problem.status_code,
                said=str(problem),
                reason=_type_of(problem.body),
                again_in_s=failures.retry_after_s(problem.response.headers),
            ) from None  # its text may repeat what was sent
        except anthropic.APITimeoutError as problem:
            raise failures.late(self._account, timeout_s) from problem
        except anthropic.APIConnectionError as problem:
            raise failures.unreachable(self._account, problem) from problem
        return raw.http_response.content

    async def close(self) -> None:
        """Let go of all connections."""
        await self._client.close()


def read_answer(content: bytes) -> ProviderAnswer:
    """Read the bytes of an answer. Raises: ValueError when it is none."""
    message = _Message.model_validate_json(content)
    text = "".join(block.text for block in message.content if block.type == "text")
    if message.stop_reason == "refusal":
        ending = Ending.REFUSED
    elif message.stop_reason in _CUT_OFF:
        ending = Ending.CUT_OFF
    else:
        ending = Ending.COMPLETE if text else Ending.EMPTY
    spent = message.usage
    usage = ReplyCost(input_tokens=tokens(spent.input_tokens), output_tokens=tokens(spent.output_tokens))
    return ProviderAnswer(text=text, ending=ending, word=message.stop_reason or "", usage=usage)


def _type_of(body: object) -> str | None:
    """Return the API's name of a failure: ``{"error": {"type": "overloaded_error"}}``."""
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("type") if isinstance(error, dict) else None
    return found if isinstance(found, str) else None
