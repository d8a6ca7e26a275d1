import asyncio
import re

import pytest
from sqlalchemy import select

from assayd.errors import RequestError
from assayd.store.access import DatabaseAccess
from assayd_cluster.tables import tokens as table
from assayd_cluster.tokens import (
    FIRST_TENANT,
    DatabaseTokens,
    Scope,
    TokenTerms,
    compute_token_digest,
    generate_secret,
)


def terms(tenant: str = "one", *scopes: Scope, node: str | None = None) -> TokenTerms:
    return TokenTerms(name="ci", tenant=tenant, scopes=frozenset(scopes or {Scope.SUBMIT}), node=node)


def test_token_is_256_random_bits_with_a_prefix_that_can_be_searched_for() -> None:
    assert re.fullmatch(r"assay_[A-Za-z0-9_-]{43}", generate_secret())
    assert generate_secret() != generate_secret()


async def test_only_the_digest_of_a_token_is_kept(tokens: DatabaseTokens, database: DatabaseAccess) -> None:
    record, secret = await tokens.create(terms())
    rows = await database.read(lambda connection: connection.execute(select(table)).all())
    assert [secret in str(row) for row in rows] == [False]
    assert await tokens.find(compute_token_digest(secret)) == record
    assert await tokens.find(compute_token_digest(secret + "x")) is None


async def test_tenants_have_numbers_that_no_user_has(tokens: DatabaseTokens) -> None:
    first, second, again = [(await tokens.create(terms(name)))[0] for name in ("one", "two", "one")]
    assert (first.tenant_id, second.tenant_id, again.tenant_id) == (
        FIRST_TENANT,
        FIRST_TENANT + 1,
        FIRST_TENANT,
    )


async def test_tenant_that_two_make_at_once_is_one(tokens: DatabaseTokens) -> None:
    made = await asyncio.gather(*(tokens.create(terms("new")) for _ in range(8)))
    assert {record.tenant_id for record, _ in made} == {FIRST_TENANT}


async def test_revoked_token_stays_listed_and_is_revoked_once(tokens: DatabaseTokens, clock) -> None:
    record, secret = await tokens.create(terms())
    revoked = await tokens.revoke(record.id)
    clock.seconds += 5
    assert revoked is not None
    assert revoked.revoked_at is not None
    assert await tokens.revoke(record.id) == revoked == await tokens.find(compute_token_digest(secret))
    assert await tokens.list() == [revoked]
    assert await tokens.revoke("nothing") is None


async def test_use_is_noted(tokens: DatabaseTokens, clock) -> None:
    record, _ = await tokens.create(terms())
    clock.seconds += 60
    await tokens.record_use([record.id])
    assert (await tokens.list())[0].last_used_at == clock.now()


@pytest.mark.parametrize(
    ("tenant", "scopes", "node"),
    [
        ("nodes", {Scope.NODE}, None),
        ("nodes", {Scope.NODE, Scope.OPERATE}, "n1"),
        ("one", {Scope.NODE}, "n1"),
        ("one", {Scope.SUBMIT}, "n1"),
        ("nodes", {Scope.SUBMIT}, None),
    ],
)
def test_node_and_tenant_do_not_mix(tenant: str, scopes: set[Scope], node: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        TokenTerms(name="x", tenant=tenant, scopes=frozenset(scopes), node=node)
    assert refused.value.code == "invalid"


def test_token_of_a_node_is_its_own() -> None:
    assert terms("nodes", Scope.NODE, node="n1").node == "n1"
