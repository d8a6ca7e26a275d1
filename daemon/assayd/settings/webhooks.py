"""The settings of webhooks."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assayd.model.webhook import parse_webhook_url
from assayd.settings.values import reject_bool


def _check_url(text: str) -> str:
    if "?" in parse_webhook_url(text).target:
        raise ValueError("a listed URL must not have a query; the URL of a request may have one")
    return text


def _check_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} isn't an address or a network, e.g. 10.1.2.3 or 10.1.2.0/24") from None
    return text


class WebhookReceiver(BaseModel):
    """A receiver of messages. Exactly one of `secret_file` and `secret_variable` must be set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="Start of allowed URLs: https://HOST[:PORT][/PATH]; http: private_addresses only."
    )
    secret_file: Path | None = Field(
        None, description="File with the secret (whsec_ and base64), readable by its owner only."
    )
    secret_variable: str | None = Field(None, description="Environment variable with the secret.")
    private_addresses: tuple[Annotated[str, AfterValidator(_check_network)], ...] = Field(
        (), description="Non-public addresses or networks that the daemon may connect to."
    )

    @model_validator(mode="after")
    def _check_complete(self) -> WebhookReceiver:
        if (self.secret_file is None) == (self.secret_variable is None):
            raise ValueError("secret_file, secret_variable: set one of them")
        if parse_webhook_url(self.url).scheme == "http" and not self.private_addresses:
            raise ValueError("url: http is allowed for private_addresses only; list them, or use https")
        return self


class WebhookSettings(BaseModel):
    """The settings of webhook messages, which are sent only to the listed receivers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout_s: Annotated[float, BeforeValidator(reject_bool), Field(gt=0, le=60)] = Field(
        10.0, description="Timeout of one try, in seconds."
    )
    retry_for_s: Annotated[float, BeforeValidator(reject_bool), Field(gt=0, le=30 * 86_400)] = Field(
        86_400.0, description="Seconds to retry an undelivered message, with growing pauses."
    )
    waiting_per_uid: Annotated[int, BeforeValidator(reject_bool), Field(ge=1)] = Field(
        10_000,
        description="Maximum waiting messages of one user; more requests with a URL are refused with 429.",
    )
    receivers: dict[str, WebhookReceiver] = Field({}, description="Receivers of messages, by name.")
