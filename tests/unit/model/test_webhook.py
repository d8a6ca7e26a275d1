from __future__ import annotations

import pytest

from assayd.model.hosts import MOST_CHARS, WebhookUrl, parse_webhook_url


def refusal(text: str) -> str:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_webhook_url(text)
    return str(caught.value)


def test_url_is_read_in_the_form_that_is_compared() -> None:
    assert parse_webhook_url("HTTPS://CI.Example.Org:443/hooks/a?b=c%2F..") == WebhookUrl(
        scheme="https", host="ci.example.org", port=443, target="/hooks/a?b=c%2F.."
    )
    assert parse_webhook_url("https://ci.example.org?x=1").target == "/?x=1"


@pytest.mark.parametrize(
    ("text", "host", "authority"),
    [
        ("http://[::1]:8080/a", "::1", "[::1]:8080"),
        ("http://127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080"),
        ("http://127.1:80", "127.1", "127.1"),
        ("https://ci.example:80/", "ci.example", "ci.example:80"),
    ],
)
def test_address_is_a_host(text: str, host: str, authority: str) -> None:
    url = parse_webhook_url(text)
    assert (url.host, url.authority) == (host, authority)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ci.example.org/a",
        "ftp://ci.example.org/a",
        "https:///a",
        "https://user@ci.example.org/a",
        "https://user:word@ci.example.org/a",
        "https://ci.example.org\\@evil.example/a",
        "https://ci.example.org/a#b",
        "https://ci.example.org/a b",
        "https://ci.example.org/a\r\nX: y",
        "https://ci.example.org/ä",
        "https://cí.example.org/",
        "https://ci.example.org:/a",
    ],
)
def test_what_readers_may_take_for_another_place_is_refused(text: str) -> None:
    assert "use a plain ASCII URL" in refusal(text)


@pytest.mark.parametrize(
    "path", ["/a/../b", "/./a", "/a/%2e%2E/b", "/a%2Fb", "/a%5cb", "/..", "/a/..;/b", "/%252e%252e/b"]
)
def test_path_that_servers_read_differently_is_refused(path: str) -> None:
    assert "which servers read differently" in refusal(f"https://ci.example.org{path}")


def test_dots_within_a_name_are_a_plain_path() -> None:
    assert parse_webhook_url("https://ci.example.org/a.b/..c/").path == "/a.b/..c/"


@pytest.mark.parametrize("text", ["https://-a.example/", "https://a_b.example/", "https://a..b/"])
def test_host_that_is_no_name_is_refused(text: str) -> None:
    assert "isn't a host name" in refusal(text)


def test_port_and_length_have_limits() -> None:
    assert "65536 isn't a valid port" in refusal("https://ci.example:65536/")
    assert "0 isn't a valid port" in refusal("https://ci.example:0/")
    assert f"the limit is {MOST_CHARS}" in refusal("https://ci.example/" + "a" * MOST_CHARS)


@pytest.mark.parametrize(
    ("listed", "named", "covered"),
    [
        ("https://ci.example/hooks", "https://ci.example/hooks", True),
        ("https://ci.example/hooks", "https://CI.example:443/hooks/a?b", True),
        ("https://ci.example/hooks", "https://ci.example/hooks?b", True),
        ("https://ci.example/hooks/", "https://ci.example/hooks/a", True),
        ("https://ci.example", "https://ci.example/anything", True),
        ("https://ci.example/hooks", "https://ci.example/hooks2", False),
        ("https://ci.example/hooks/", "https://ci.example/hooks", False),
        ("https://ci.example/hooks", "http://ci.example/hooks", False),
        ("https://ci.example/hooks", "https://ci.example:444/hooks", False),
        ("https://ci.example/hooks", "https://ci.example.evil.example/hooks", False),
        ("https://ci.example/hooks", "https://evil.example/hooks", False),
        ("https://ci.example/hooks", "https://ci.example/HOOKS", False),
    ],
)
def test_listed_url_covers_what_lies_below_it(listed: str, named: str, covered: bool) -> None:
    assert parse_webhook_url(listed).covers(parse_webhook_url(named)) is covered
