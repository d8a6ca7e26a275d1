"""Trace settings: the collector and its headers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from assayd.errors import ConfigError
from assayd.metrics import Metrics
from assayd.settings.model import TracingSettings
from assayd_tracing.wiring import build_tracing
from support.collector import collecting


async def deliver(settings: TracingSettings) -> None:
    async with AsyncExitStack() as stack:
        tracing = build_tracing(settings, stack, Metrics(), daemon_id="01DAEMON")
        tracing.begin("attempt", {}).end()


def headers_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "headers"
    file.write_text(text)
    file.chmod(mode)
    return file


async def test_headers_are_sent(tmp_path: Path) -> None:
    file = headers_file(tmp_path, "# of the collector\nAuthorization: Bearer s3cret\n\nX-Team: judge\n")
    with collecting() as collector:
        await deliver(TracingSettings(endpoint=collector.endpoint, headers_file=file))
        collector.wait_for("attempt")
    assert collector.headers[0]["authorization"] == "Bearer s3cret"
    assert collector.headers[0]["x-team"] == "judge"
    assert collector.spans[0].service == "assayd"


async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with collecting() as collector:
        await deliver(TracingSettings(endpoint=collector.endpoint, service_name="judge"))
        assert collector.wait_for("attempt")[0].service == "judge"


@pytest.mark.parametrize("text", ["no colon\n", "a b: c\n", ": value\n", "a: b\x07\n"])
async def test_line_that_is_no_header_is_refused(tmp_path: Path, text: str) -> None:
    file = headers_file(tmp_path, f"ok: yes\n{text}")
    with pytest.raises(ConfigError, match="line 2: write `Name: value`") as refused:
        await deliver(TracingSettings(endpoint="http://127.0.0.1:1", headers_file=file))
    assert refused.value.code == "tracing.headers"


async def test_headers_that_others_can_read_are_refused(tmp_path: Path) -> None:
    file = headers_file(tmp_path, "Authorization: Bearer s3cret\n", 0o644)
    with pytest.raises(ConfigError, match=r"mode 0644.*chmod 0600") as refused:
        await deliver(TracingSettings(endpoint="http://127.0.0.1:1", headers_file=file))
    assert "s3cret" not in refused.value.message


async def test_missing_headers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: FileNotFoundError"):
        await deliver(TracingSettings(endpoint="http://127.0.0.1:1", headers_file=tmp_path / "none"))


async def test_headers_are_not_sent_in_the_clear(tmp_path: Path) -> None:
    file = headers_file(tmp_path, "Authorization: Bearer s3cret\n")
    with pytest.raises(ConfigError, match="https:// only") as refused:
        await deliver(TracingSettings(endpoint="http://collector.example.org:4318", headers_file=file))
    assert refused.value.code == "tracing.endpoint"


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://collector", "http://a b", "", "http://"])
def test_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError):
        TracingSettings(endpoint=endpoint)
