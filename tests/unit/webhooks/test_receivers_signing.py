from __future__ import annotations

from datetime import UTC, datetime

import pytest

from assayd.webhooks import build_signed_headers, read_secret

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_signature_is_that_of_the_published_example() -> None:
    at = datetime.fromtimestamp(1614265330, UTC)
    headers = build_signed_headers(
        read_secret(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', at
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_prefix_of_a_secret_may_be_left_out() -> None:
    assert read_secret(SECRET) == read_secret(SECRET.removeprefix("whsec_"))


@pytest.mark.parametrize("text", ["whsec_not-base64!", "whsec_c2hvcnQ=", "whsec_", "whsec_" + "A" * 100])
def test_secret_that_is_none_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError, match="dev/urandom") as caught:
        read_secret(text)
    assert text.removeprefix("whsec_") not in str(caught.value) or text == "whsec_"
