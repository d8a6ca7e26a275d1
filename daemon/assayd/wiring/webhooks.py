"""Builds the webhook sender."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_network

from assayd.egress.resolver import Resolver
from assayd.errors import ConfigError
from assayd.keys import KeySource, find_key, make_environment_unreadable
from assayd.metrics import Metrics
from assayd.model.hosts import parse_webhook_url
from assayd.ports.clock import Clock
from assayd.ports.driving import Leads
from assayd.settings import WebhookReceiver, WebhookSettings
from assayd.store.access import DatabaseAccess
from assayd.store.outbox import Outbox
from assayd.webhooks import Receiver, WebhookClient, WebhookLimits, WebhookSender, read_secret

SECTION = "webhooks.receivers"
LOOK_UPS = 8


def read_receivers(wanted: Mapping[str, WebhookReceiver]) -> Sequence[Receiver]:
    """Return the listed receivers, after removing their secrets from the environment.

    Raises: ConfigError ``webhooks.key``.
    """
    if wanted:
        make_environment_unreadable()
    found = [_build_receiver(name, one) for name, one in wanted.items()]
    for one in wanted.values():
        if one.secret_variable is not None:
            os.environ.pop(one.secret_variable, None)
    return found


def _build_receiver(name: str, wanted: WebhookReceiver) -> Receiver:
    place = KeySource(variable=wanted.secret_variable, file=wanted.secret_file, section=SECTION)
    found = find_key(name, place, os.environ)
    try:
        key = read_secret(found.text)
    except ValueError as problem:
        field = f"{SECTION}.{name}"
        raise ConfigError("webhooks.key", f"{field}: {found.source}: {problem}", field=field) from None
    private = tuple(ip_network(one) for one in wanted.private_addresses)
    return Receiver(name=name, url=parse_webhook_url(wanted.url), key=key, private=private)


def derive_webhook_limits(settings: WebhookSettings) -> WebhookLimits:
    """Return the limits of webhooks that the settings define."""
    return WebhookLimits(
        timeout_s=settings.timeout_s,
        retry_for=timedelta(seconds=settings.retry_for_s),
        waiting_per_uid=settings.waiting_per_uid,
    )


def build_sender(
    receivers: Sequence[Receiver],
    settings: WebhookSettings,
    access: DatabaseAccess,
    *,
    clock: Clock,
    metrics: Metrics,
    leads: Leads,
) -> WebhookSender:
    """Return the sender of webhook messages for the given receivers."""
    return WebhookSender(
        receivers,
        store=Outbox(access),
        courier=WebhookClient(Resolver(places=LOOK_UPS), settings.timeout_s),
        clock=clock,
        metrics=metrics,
        added=access.messages_added,
        limits=derive_webhook_limits(settings),
        leads=leads,
    )
