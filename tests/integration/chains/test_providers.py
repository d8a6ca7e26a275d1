"""Every vendor's own library against a server on loopback that speaks the vendor's protocol."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from assayd.clock import SystemClock
from assayd.errors import ProviderError
from assayd.model.prompting import SourcePart
from assayd.settings import RepairProvider
from assayd_chains.loop import MOST_CALLS, ask_provider
from assayd_chains.provider import FixRequest, Provider, Reply
from assayd_chains.providers.answers import MAX_RESPONSE_BYTES
from assayd_chains.wiring import open_providers
from support.hosts.model_api import GEMINI, KEY, MODEL, OPENAI, VENDORS, Canned, ModelApi, Vendor, model_api

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUEST = FixRequest(
    system="be exact", user="SECRET SOURCE", passage=SourcePart(name="code", language="python", text="x")
)
FIXED = json.dumps({"patched_code": "x = 1\n", "fix_reason": "was x"})


class Talk:
    """A vendor's server, and two providers that use it: with the right key, and with a wrong one."""

    def __init__(self, api: ModelApi, provider: Provider, stranger: Provider) -> None:
        self.api, self.vendor = api, api.vendor
        self.provider, self.stranger = provider, stranger
        self.waited: list[float] = []

    def will(self, *script: Canned) -> None:
        self.api.script[:], self.api.asked[:], self.waited[:] = script, [], []

    def says(self, text: str) -> Canned:
        return Canned(body=self.vendor.answer(text))

    def fails(self, status: int, **headers: str) -> Canned:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Canned(status=status, body=self.vendor.failure(status, "later"), headers=named)

    async def ask(self, provider: Provider | None = None, *, timeout_s: float = 600.0) -> Reply:
        async def wait(seconds: float) -> None:
            self.waited.append(seconds)

        asked = provider or self.provider
        return await ask_provider(asked, REQUEST, timeout_s=timeout_s, clock=SystemClock(), sleep=wait)

    async def failure(self, provider: Provider | None = None, *, timeout_s: float = 600.0) -> ProviderError:
        with pytest.raises(ProviderError) as failed:
            await self.ask(provider, timeout_s=timeout_s)
        return failed.value


def wanted(vendor: Vendor, base_url: str, variable: str) -> RepairProvider:
    return RepairProvider(
        type=vendor.type, model=MODEL, base_url=base_url, key_variable=variable, max_tokens=500
    )


@pytest_asyncio.fixture(
    loop_scope="module", scope="module", params=VENDORS, ids=[vendor.type for vendor in VENDORS]
)
async def talk(request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        patch.setenv("RIGHT_KEY", KEY)
        patch.setenv("WRONG_KEY", "sk-wrong-fedcba9876543210")
        async with model_api(request.param) as api, AsyncExitStack() as stack:
            found = await open_providers(
                {
                    "right": wanted(request.param, api.base_url, "RIGHT_KEY"),
                    "wrong": wanted(request.param, api.base_url, "WRONG_KEY"),
                },
                stack,
            )
            yield Talk(api, found["right"], found["wrong"])


async def test_answer_becomes_a_fix_with_its_tokens_and_its_time(talk: Talk) -> None:
    talk.will(talk.says(f"Here it is:\n```json\n{FIXED}\n```"))
    reply = await talk.ask()
    assert (reply.code, reply.reason) == ("x = 1\n", "was x")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 7)
    assert reply.usage.took_s > 0


async def test_streamed_answer_is_heard_while_it_comes_and_counts_whole(talk: Talk) -> None:
    stream = talk.vendor.streamed(FIXED)
    if not stream:
        talk.will(talk.says(FIXED))
    else:
        talk.will(Canned(body=stream, headers={"content-type": "text/event-stream"}))
    heard: list[str] = []
    reply = await talk.provider.fix(replace(REQUEST, heard=heard.append), timeout_s=60)
    assert (reply.code, reply.usage.input_tokens) == ("x = 1\n", 11)
    assert "".join(heard) == (FIXED if stream else "")
    assert ("stream" in talk.api.asked[0].body) is bool(stream)


async def test_stream_that_breaks_off_is_asked_for_again(talk: Talk) -> None:
    stream = talk.vendor.streamed(FIXED) or json.dumps(talk.vendor.answer(FIXED)).encode()
    with_type = {"content-type": "text/event-stream"} if talk.vendor.streamed(FIXED) else {}
    talk.will(Canned(body=stream, cut=len(stream) // 2, headers=with_type), talk.says(FIXED))
    with capture_logs() as told:
        assert (await talk.ask()).code == "x = 1\n"
    assert [each["code"] for each in told if each["event"] == "provider.call_failed"] == ["provider.garbled"]


async def test_request_says_model_limit_and_both_texts(talk: Talk) -> None:
    talk.will(talk.says(FIXED))
    await talk.ask()
    body = talk.api.asked[0].body
    assert talk.vendor.said_to(body) == (REQUEST.system, REQUEST.user)
    assert "500" in json.dumps(body)
    assert MODEL in json.dumps(body) + talk.api.asked[0].path


async def test_busy_api_is_asked_again_when_it_says(talk: Talk) -> None:
    talk.will(talk.fails(429, retry_after="7"), talk.says(FIXED))
    await talk.ask()
    assert talk.waited == [7.0]


async def test_a_date_to_come_back_at_is_counted_from_the_servers_own(talk: Talk) -> None:
    talk.will(talk.fails(503, retry_after="Mon, 04 May 2026 10:20:42 GMT"), talk.says(FIXED))
    await talk.ask()
    assert talk.waited == [12.0]


async def test_api_that_is_busy_for_longer_than_there_is_time_is_not_waited_for(talk: Talk) -> None:
    talk.will(talk.fails(429, retry_after="3600"))
    assert (await talk.failure()).code == "provider.busy"
    assert talk.waited == []


async def test_failing_api_is_asked_again_each_time_later(talk: Talk) -> None:
    talk.will(talk.fails(500), talk.fails(502), talk.says(FIXED))
    assert (await talk.ask()).code == "x = 1\n"
    assert len(talk.waited) == 2


async def test_library_does_not_try_again_itself(talk: Talk) -> None:
    talk.will(*[talk.fails(500)] * MOST_CALLS)
    assert (await talk.failure()).code == "provider.status"
    assert len(talk.api.asked) == MOST_CALLS


async def test_api_that_never_answers_is_left_after_the_time_for_a_call(talk: Talk) -> None:
    talk.will(Canned(never=True))
    with pytest.raises(ProviderError) as late:
        await talk.provider.fix(REQUEST, timeout_s=0.05)
    assert (late.value.code, late.value.retryable) == ("provider.timeout", True)


async def test_connection_that_is_refused_can_be_tried_again(talk: Talk) -> None:
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RIGHT_KEY", KEY)
            nobody = {"nobody": wanted(talk.vendor, "http://127.0.0.1:1", "RIGHT_KEY")}
            provider = (await open_providers(nobody, stack))["nobody"]
        with pytest.raises(ProviderError) as failed:
            await provider.fix(REQUEST, timeout_s=60)
    assert (failed.value.code, failed.value.retryable) == ("provider.unreachable", True)


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (b"<html>a portal</html>", {"provider.garbled"}),
        (b"\xff", {"provider.garbled"}),
        # One of the libraries takes any JSON for an answer in which nothing stands.
        (b"[]", {"provider.garbled", "provider.empty"}),
        (b'"text"', {"provider.garbled", "provider.empty"}),
    ],
)
async def test_what_is_no_answer_of_the_api_is_told_so(talk: Talk, body: bytes, codes: set[str]) -> None:
    talk.will(Canned(body=body))
    with pytest.raises(ProviderError) as failed:
        await talk.provider.fix(REQUEST, timeout_s=60)
    assert failed.value.code in codes
    assert failed.value.retryable


async def test_answer_whose_json_is_cut_short_is_asked_for_again(talk: Talk) -> None:
    whole = talk.vendor.answer(FIXED)
    talk.will(Canned(body=whole, cut=20), talk.says(FIXED[:-20]), talk.says(FIXED))
    with capture_logs() as told:
        assert (await talk.ask()).code == "x = 1\n"
    codes = [event["code"] for event in told if event["event"] == "provider.call_failed"]
    assert codes == ["provider.garbled", "provider.reply"]


async def test_refusal_is_told_as_one_and_not_asked_again(talk: Talk) -> None:
    talk.will(Canned(body=talk.vendor.refusal()))
    failure = await talk.failure()
    assert (failure.code, failure.retryable) == ("provider.refused", False)


async def test_answer_at_the_limit_of_tokens_names_the_setting(talk: Talk) -> None:
    talk.will(Canned(body=talk.vendor.cut_off()))
    failure = await talk.failure()
    assert (failure.code, failure.retryable) == ("provider.cut_off", False)
    assert "repair.providers.right.max_tokens" in failure.message


async def test_empty_list_of_candidates_is_told_so(talk: Talk) -> None:
    talk.will(Canned(body=talk.vendor.empty), talk.says(FIXED))
    with capture_logs() as told:
        await talk.ask()
    assert "provider.empty" in [event.get("code") for event in told]


async def test_request_that_the_api_does_not_take_is_not_repeated(talk: Talk) -> None:
    talk.will(talk.fails(400))
    assert (await talk.failure()).code == "provider.status"
    assert len(talk.api.asked) == 1


async def test_wrong_key_is_told_by_its_place_and_not_tried_again(talk: Talk) -> None:
    talk.will()
    failure = await talk.failure(talk.stranger)
    assert (failure.code, failure.retryable) == ("provider.key", False)
    assert "$WRONG_KEY" in failure.message
    assert len(talk.api.asked) == 1


async def test_neither_key_nor_prompt_is_ever_written_down(
    talk: Talk, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    echo = Canned(status=400, body=talk.vendor.failure(400, f"bad request by {KEY}"))
    talk.will(talk.fails(429, retry_after="1"), echo)
    caplog.set_level(logging.DEBUG)
    with capture_logs() as told:
        failure = await talk.failure()
    captured = capfd.readouterr()
    written = "\n".join([
        *(record.getMessage() for record in caplog.records),
        json.dumps(told, default=repr),
        *traceback.format_exception(failure),
        repr(talk.provider),
        captured.out + captured.err,
    ])  # fmt: skip
    assert "bad request by" in written
    assert KEY not in written
    assert "SECRET SOURCE" not in written


async def test_cancelling_leaves_the_call_at_once(talk: Talk) -> None:
    talk.will(Canned(never=True))
    task = asyncio.create_task(talk.provider.fix(REQUEST, timeout_s=600))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("talk", [GEMINI], ids=["gemini"], indirect=True)
async def test_gemini_says_in_the_body_that_a_key_is_none_and_when_to_come_back(talk: Talk) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}
    busy = {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    none = {"error": {"code": 400, "message": "key", "status": "INVALID_ARGUMENT", "details": [info]}}
    talk.will(Canned(status=429, body=busy), Canned(status=400, body=none))
    assert (await talk.failure()).code == "provider.key"
    assert talk.waited == [38.0]


@pytest.mark.parametrize("talk", [OPENAI], ids=["openai"], indirect=True)
async def test_quota_that_is_used_up_is_not_waited_for(talk: Talk) -> None:
    error = {"message": "pay", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
    talk.will(Canned(status=429, body={"error": error}))
    failure = await talk.failure()
    assert (failure.code, failure.retryable) == ("provider.busy", False)


def with_tokens(answer: dict[str, object], count: int) -> bytes:
    """Return an answer with the server's token counts replaced."""
    return json.dumps(answer).replace("11", str(count)).encode()


async def test_count_of_tokens_that_nobody_can_have_used_is_not_known(talk: Talk) -> None:
    talk.will(Canned(body=with_tokens(talk.vendor.answer(FIXED), 2**63)))
    assert (await talk.ask()).usage.input_tokens is None


@pytest.mark.parametrize(
    "date", ["Mon, 04 May 2026 10:20:42 +99999999999999", "9" * 4000, "Mon, 04 May 99999 10:20:42 GMT"]
)
async def test_time_to_come_back_that_is_none_ends_the_call_like_any_failure(talk: Talk, date: str) -> None:
    talk.will(*[talk.fails(429, retry_after=date)] * MOST_CALLS)
    assert (await talk.failure()).code == "provider.busy"


@pytest.mark.parametrize("depth", [200_000, 4_000_000])
async def test_answer_that_is_nested_without_end_is_told_so(talk: Talk, depth: int) -> None:
    talk.will(Canned(body=b"[" * depth), Canned(status=500, body=b"[" * depth))
    for code in ("provider.garbled", "provider.status"):
        with pytest.raises(ProviderError) as failed:
            await talk.provider.fix(REQUEST, timeout_s=60)
        assert failed.value.code in {code, "provider.garbled", "provider.broken"}


async def test_daemon_goes_on_while_an_answer_of_many_fences_is_read(talk: Talk) -> None:
    talk.will(talk.says("```a\n" * 30_000))
    longest, last = 0.0, (loop := asyncio.get_running_loop()).time()
    asking = asyncio.ensure_future(talk.provider.fix(REQUEST, timeout_s=60))
    while not asking.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, loop.time() - last), loop.time()
    with pytest.raises(ProviderError) as failed:
        await asking
    assert failed.value.code == "provider.reply"
    assert longest < 2


async def test_redirect_is_not_followed_and_told_as_what_it_is(talk: Talk) -> None:
    async with model_api(talk.vendor) as elsewhere:
        place = f"{elsewhere.base_url}{talk.vendor.path.removeprefix(talk.vendor.base)}"
        talk.will(Canned(status=307, headers={"location": place}))
        failure = await talk.failure()
    assert elsewhere.asked == []
    assert failure.code == "provider.status"
    assert "307" in failure.message
    assert "redirects aren't followed" in failure.message


async def test_answer_is_read_to_its_bound_and_no_further(talk: Talk) -> None:
    talk.will(Canned(body=b" " * (MAX_RESPONSE_BYTES + 1)))
    with pytest.raises(ProviderError) as failed:
        await talk.provider.fix(REQUEST, timeout_s=60)
    assert failed.value.code in {"provider.unreachable", "provider.garbled"}


async def test_compressed_answer_is_not_unpacked(talk: Talk) -> None:
    packed = gzip.compress(b" " * 100_000_000)
    talk.will(Canned(body=packed, headers={"content-encoding": "gzip"}))
    with pytest.raises(ProviderError) as failed:
        await talk.provider.fix(REQUEST, timeout_s=60)
    assert failed.value.code in {"provider.unreachable", "provider.garbled"}
    assert talk.api.asked[0].headers["accept-encoding"] == "identity"
