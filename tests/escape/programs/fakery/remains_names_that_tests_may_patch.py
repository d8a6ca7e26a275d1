# expect: completed verdict=validated | run: program=module
# What tests of adapters do with names: nothing of it is refused.
import asyncio
import time
from datetime import datetime
from unittest import mock

import adapter
import httpx
import pydantic.utils
import pytest


def test_patched_by_name(monkeypatch):
    monkeypatch.setattr("adapter.OpenMeteo.transform", lambda self, raw: {})
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with mock.patch("httpx.get") as get, mock.patch("builtins.open", mock.mock_open(read_data="x")):
        get.return_value = httpx.Response(200, json={"a": 1})
        assert httpx.get("https://x.test").json() == {"a": 1}
        assert open("there").read() == "x"
    with mock.patch("os.environ", {"A": "b"}), mock.patch.object(adapter.OpenMeteo, "get_schema"):
        time.sleep(60)
    with mock.patch("httpx.Client.send"), mock.patch("httpx._client.Client.close"):
        pass


def test_found_by_name():
    assert pydantic.utils.import_string("json.loads")("1") == 1
    assert pytest.importorskip("requests")


def test_imported_late_by_libraries():
    async def ask():
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda r: httpx.Response(200, text="é"))) as client:
            return (await client.get("https://x.test")).text

    assert asyncio.run(ask()) == "é"
    assert datetime.strptime("2024-01-02", "%Y-%m-%d").year == 2024
    assert "é".encode("latin-1").decode("cp1252") == "é"
