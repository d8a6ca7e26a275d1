from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from assayd.errors import ConfigError
from assayd.settings import WebhookReceiver, WebhookSettings
from assayd.wiring.basics import derive_webhook_limits, read_receivers
from support.hosts.webhook_receiver import SECRET

URL = "https://ci.example/hooks/"


def file(folder: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(**listed: object) -> str:
    with pytest.raises(ConfigError) as caught:
        read_receivers({"ci": WebhookReceiver(url=URL, **listed)})
    assert caught.value.code == "webhooks.key"
    assert SECRET not in caught.value.message
    return caught.value.message


def test_receiver_is_read_and_its_secret_leaves_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CI_SECRET", SECRET)
    by_variable, by_file = read_receivers(
        {
            "a": WebhookReceiver(url=URL, secret_variable="CI_SECRET", private_addresses=("10.0.0.0/8",)),
            "b": WebhookReceiver(url=URL, secret_file=file(tmp_path)),
        }
    )
    assert by_variable.key == by_file.key
    assert by_variable.allowed_addresses(["10.1.2.3"]) == ("10.1.2.3",)
    assert "CI_SECRET" not in os.environ


def test_secret_that_cannot_be_used_is_refused_by_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "webhooks.receivers.ci: " in refusal(secret_variable="CI_SECRET")
    assert "chmod 0600" in refusal(secret_file=file(tmp_path, mode=0o644))
    assert "urandom" in refusal(secret_file=file(tmp_path, text="whsec_c2hvcnQ="))
    monkeypatch.setenv("CI_SECRET", "not base64!")
    assert "one word" in refusal(secret_variable="CI_SECRET")


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ({}, "set one of them"),
        ({"secret_variable": "A", "secret_file": "/a"}, "set one of them"),
        ({"url": "http://ci.example/", "secret_variable": "A"}, "http is allowed for private_addresses only"),
        ({"url": "https://ci.example/?a", "secret_variable": "A"}, "must not have a query"),
        ({"url": "https://u@ci.example/", "secret_variable": "A"}, "use a plain ASCII URL"),
        ({"secret_variable": "A", "private_addresses": ("ten",)}, "isn't an address or a network"),
        ({"secret_variable": "A", "private_addresses": ("10.1.2.3/8",)}, "isn't an address or a network"),
    ],
)
def test_receiver_that_cannot_be_meant_is_refused(listed: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        WebhookReceiver.model_validate({"url": URL, **listed})


def test_http_to_listed_addresses_is_fine_and_nobody_is_listed_by_default() -> None:
    listed = {"url": "http://10.1.2.3:8080/", "secret_variable": "A", "private_addresses": ["10.1.2.3"]}
    assert WebhookReceiver.model_validate(listed).url == "http://10.1.2.3:8080/"
    assert WebhookSettings().receivers == {}
    assert derive_webhook_limits(WebhookSettings()).retry_for.days == 1
