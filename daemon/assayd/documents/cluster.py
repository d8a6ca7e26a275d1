"""Documents of the tokens and nodes of a gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from assayd.documents.base import BaseDocument, Timestamp

TokenScope = Literal["metrics", "read", "submit", "operate", "node"]
NodeState = Literal["ready", "draining", "not_ready", "lost", "stopped"]
TokenName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
NodeName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$")]


class TokenBody(BaseModel):
    """The body of `POST /v1/tokens`: the requested token."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: TokenName = Field(description="Name of the token in lists and logs.")
    tenant: TokenName = Field("default", description="Owner; created if it doesn't exist.")
    scopes: list[TokenScope] = Field(
        ["submit"], min_length=1, max_length=5, description="Scopes of the token."
    )
    node: NodeName | None = Field(
        None, description="The node that it is bound to; only with the scope `node`."
    )


class TokenDocument(BaseDocument):
    """A token without its secret."""

    id: str = Field(description="Id of the token, for revoking it.")
    name: str = Field(description="Name of the token.")
    tenant: str = Field(description="Name of the tenant that owns it.")
    tenant_id: int = Field(description="Number of the tenant: the `uid` of its attempts.")
    scopes: list[str] = Field(description="Scopes of the token.")
    node: str | None = Field(description="The node that it is bound to.")
    created_at: Timestamp = Field(description="When it was made.")
    revoked_at: Timestamp | None = Field(description="When it was revoked.")
    last_used_at: Timestamp | None = Field(description="When it was last used, to about a minute.")


class NewTokenDocument(TokenDocument):
    """A new token, with the secret that is shown only once."""

    token: str = Field(description="The token, shown only in this answer.")
    broker_url: str | None = Field(
        None,
        description="A node's own URL of the broker, which ends with the token; null if nodes share one.",
    )


class TokenListDocument(BaseDocument):
    """A list of all tokens."""

    tokens: list[TokenDocument] = Field(description="The tokens, newest first.")


class NodeDocument(BaseDocument):
    """The last state that a node reported."""

    name: str = Field(description="Its name.")
    state: NodeState = Field(
        description="State of the node; `lost` after 15 s without a heartbeat, unless it was stopped."
    )
    why: str = Field(description="Why it takes no attempts; empty if it does.")
    capacity: int = Field(description="Attempts that it runs at once.")
    in_hand: int = Field(description="Attempts that it has in hand.")
    version: str = Field(description="The version of its daemon.")
    engine: str = Field(description="Engine of its containers.")
    beat_at: Timestamp = Field(description="Time of its last heartbeat.")
    silent_s: float = Field(description="Seconds since then, by the database's clock.")


class NodeListDocument(BaseDocument):
    """A list of all nodes."""

    nodes: list[NodeDocument] = Field(description="The nodes, by name.")


class DistrustDocument(BaseDocument):
    """The numbers of a distrusted node's verdicts that were marked, and of its runs that other nodes get."""

    node: NodeDocument | None = Field(
        description="The node, which takes no work from now on; null if it was forgotten."
    )
    marked: int = Field(description="Verdicts that were not marked before.")
    taken_back: int = Field(description="Runs that it had in hand, which other nodes get.")


class ForgottenNodeDocument(BaseDocument):
    """A node that was removed from the list."""

    name: str = Field(description="Its name.")
    revoked: list[str] = Field(description="Ids of its tokens that were still valid.")
