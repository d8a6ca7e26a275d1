import asyncio

import pytest

from assayd.errors import RequestError, StoreError
from assayd_cluster.tokens import (
    FAILURE_LEAK_S,
    FAILURES,
    FRESH_S,
    MAX_QUEUED_TOKENS,
    DatabaseTokens,
    Scope,
    TokenTerms,
    TokenVerifier,
    generate_secret,
)

TERMS = TokenTerms(name="ci", tenant="one", scopes=frozenset({Scope.READ}))


@pytest.fixture
def verifier(tokens: DatabaseTokens, clock) -> TokenVerifier:
    return TokenVerifier(tokens, clock)


async def refusal(verifier: TokenVerifier, secret: str, address: str = "a") -> str:
    with pytest.raises(RequestError) as refused:
        await verifier.verify(secret, address)
    assert secret not in refused.value.message or not secret
    return refused.value.code


async def test_answer_counts_for_seconds_and_no_longer(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    record, secret = await tokens.create(TERMS)
    assert (await verifier.verify(secret, "a")).id == record.id
    await tokens.revoke(record.id)
    clock.seconds += FRESH_S - 0.1
    assert (await verifier.verify(secret, "a")).id == record.id
    clock.seconds += 0.2
    assert await refusal(verifier, secret) == "token.revoked"


async def test_token_revoked_here_is_refused_at_once(verifier: TokenVerifier, tokens: DatabaseTokens) -> None:
    record, secret = await tokens.create(TERMS)
    await verifier.verify(secret, "a")
    await tokens.revoke(record.id)
    verifier.forget()
    assert await refusal(verifier, secret) == "token.revoked"


@pytest.mark.parametrize(
    "secret",
    ["", "x", "assay_", generate_secret(), "assay_" + "x" * 10_000, "assay_ä"],
    ids=["empty", "short", "bare", "unknown", "long", "not-ascii"],
)
async def test_what_is_no_token_is_refused(verifier: TokenVerifier, secret: str) -> None:
    assert await refusal(verifier, secret) == "token.refused"


async def test_guesses_of_one_address_are_slowed(verifier: TokenVerifier, clock) -> None:
    codes = [await refusal(verifier, generate_secret()) for _ in range(FAILURES + 2)]
    assert codes == ["token.refused"] * FAILURES + ["token.failures"] * 2
    assert await refusal(verifier, generate_secret(), "b") == "token.refused"
    clock.seconds += 3 * FAILURE_LEAK_S + 0.1
    assert await refusal(verifier, generate_secret()) == "token.refused"


async def test_guesses_lock_nobody_out_behind_the_same_address(
    verifier: TokenVerifier, tokens: DatabaseTokens
) -> None:
    _, secret = await tokens.create(TERMS)  # which this gateway has not seen yet
    for n in range(5 * FAILURES):
        await refusal(verifier, generate_secret())
        await refusal(verifier, generate_secret(), f"elsewhere {n}")
    assert (await verifier.verify(secret, "a")).tenant == "one"


async def test_slowed_guesses_are_looked_up_one_by_one_and_no_more_than_so_many_wait(
    verifier: TokenVerifier, tokens: DatabaseTokens
) -> None:
    for _ in range(FAILURES):
        await refusal(verifier, generate_secret())
    under_way, most, go = 0, 0, asyncio.Event()

    async def find(_: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await go.wait()
        under_way -= 1

    tokens.find = find  # type: ignore[method-assign,assignment]
    guesses = [asyncio.create_task(refusal(verifier, generate_secret())) for _ in range(MAX_QUEUED_TOKENS)]
    await asyncio.sleep(0)
    assert await refusal(verifier, generate_secret()) == "token.failures"  # at once
    go.set()
    assert set(await asyncio.gather(*guesses)) == {"token.failures"}
    assert most == 1


async def test_token_of_a_request_under_way_is_looked_at_whatever_was_guessed(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    record, secret = await tokens.create(TERMS)
    await verifier.verify(secret, "a")
    for _ in range(3 * FAILURES):
        await refusal(verifier, generate_secret())
    await tokens.revoke(record.id)
    clock.seconds += FRESH_S + 1
    for _ in range(3):
        with pytest.raises(RequestError) as refused:
            await verifier.verify(secret, "a", begun=True)
        assert refused.value.code == "token.revoked"


async def test_token_that_was_good_before_is_not_held_up_by_guesses(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    _, secret = await tokens.create(TERMS)
    await verifier.verify(secret, "a")
    for _ in range(FAILURES):
        await refusal(verifier, generate_secret())
    clock.seconds += FRESH_S + 1
    assert (await verifier.verify(secret, "a")).tenant == "one"


async def test_use_is_written_about_once_a_minute(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    _, secret = await tokens.create(TERMS)
    noted: list[object] = []

    async def note(ids: object) -> None:
        noted.append(ids)
        raise StoreError("store.busy", "not now")  # nothing depends on it

    tokens.record_use = note  # type: ignore[method-assign]
    for seconds in (0, 1, 3, 61, 62):
        clock.seconds = 1000 + seconds
        await verifier.verify(secret, "a")
        while verifier._noting:
            await next(iter(verifier._noting))
    assert len(noted) == 2
