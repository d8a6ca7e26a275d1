import pytest

from assayd.errors import RequestError, StoreError
from assayd_cluster import verifying
from assayd_cluster.tokens import DatabaseTokens, Scope, TokenTerms, new_secret
from assayd_cluster.verifying import FAILURES, TokenVerifier

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
    clock.seconds += verifying.FRESH_S - 0.1
    assert (await verifier.verify(secret, "a")).id == record.id
    clock.seconds += 0.2
    assert await refusal(verifier, secret) == "token.revoked"


async def test_token_revoked_here_is_refused_at_once(verifier: TokenVerifier, tokens: DatabaseTokens) -> None:
    record, secret = await tokens.create(TERMS)
    await verifier.verify(secret, "a")
    await tokens.revoke(record.id)
    verifier.forget()
    assert await refusal(verifier, secret) == "token.revoked"


@pytest.mark.parametrize("secret", ["", "x", "assay_", new_secret(), "assay_" + "x" * 10_000, "assay_ä"])
async def test_what_is_no_token_is_refused(verifier: TokenVerifier, secret: str) -> None:
    assert await refusal(verifier, secret) == "token.refused"


async def test_guesses_of_one_address_are_slowed_and_others_are_not(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    _, secret = await tokens.create(TERMS)
    codes = [await refusal(verifier, new_secret()) for _ in range(FAILURES + 2)]
    assert codes == ["token.refused"] * FAILURES + ["token.failures"] * 2
    assert await refusal(verifier, secret) == "token.failures"  # not looked up any more
    assert (await verifier.verify(secret, "b")).tenant == "one"
    clock.seconds += verifying.FAILURE_S + 0.1
    assert await refusal(verifier, new_secret()) == "token.refused"


async def test_token_that_was_good_before_is_not_held_up_by_guesses(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    _, secret = await tokens.create(TERMS)
    await verifier.verify(secret, "a")
    for _ in range(FAILURES):
        await refusal(verifier, new_secret())
    clock.seconds += verifying.FRESH_S + 1
    assert (await verifier.verify(secret, "a")).tenant == "one"


async def test_guesses_of_many_addresses_are_slowed_together(verifier: TokenVerifier) -> None:
    codes = [await refusal(verifier, new_secret(), f"a{n}") for n in range(verifying.ALL_FAILURES + 1)]
    assert codes[-2:] == ["token.refused", "token.failures"]


async def test_use_is_written_about_once_a_minute(
    verifier: TokenVerifier, tokens: DatabaseTokens, clock
) -> None:
    _, secret = await tokens.create(TERMS)
    noted: list[object] = []

    async def note(ids: object) -> None:
        noted.append(ids)
        raise StoreError("store.busy", "not now")  # nothing depends on it

    tokens.note_use = note  # type: ignore[method-assign]
    for seconds in (0, 1, 3, 61, 62):
        clock.seconds = 1000 + seconds
        await verifier.verify(secret, "a")
        while verifier._noting:
            await next(iter(verifier._noting))
    assert len(noted) == 2
