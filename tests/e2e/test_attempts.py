"""Attempts through the client library: waiting, idempotent submission, following, cancelling, listing."""

import subprocess
from itertools import takewhile

import httpx
import pytest

from assayd.clock import UlidGenerator
from assayd_client import ClientError, Document, PlainClient
from support.daemons.ask import NOBODY, ask_as_nobody
from support.daemons.daemon_fixtures import needs_root
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, LOUD, PATH, endless, extractor

pytestmark = pytest.mark.engine

MOST_ACTIVE = 64


def wait_until(client: PlainClient, attempt: Document, state: str) -> None:
    """Follow an attempt's events until it reaches a state."""
    for event in client.events(attempt["id"]):
        if event.kind == "state" and event.body["state"] == state:
            return
    raise AssertionError(f"the attempt was never {state}")


def test_post_answers_at_once_and_tells_where_to_look(http: httpx.Client, client: PlainClient) -> None:
    response = http.post("/v1/attempts", json=extractor(GOOD))

    assert response.status_code == 202
    assert response.json()["report"] is None
    assert response.headers["location"] == f"/v1/attempts/{response.json()['id']}"
    assert client.attempt(response.json()["id"], wait_s=60)["verdict"] == "validated"


def test_post_that_waits_answers_with_the_finished_attempt(http: httpx.Client) -> None:
    response = http.post("/v1/attempts", params={"wait_s": 60}, json=extractor(GOOD))

    assert response.status_code == 200
    assert response.json()["report"]["status"] == "VALIDATED"


def test_wait_that_is_too_short_answers_with_the_attempt_as_it_is(
    http: httpx.Client, client: PlainClient
) -> None:
    response = http.post("/v1/attempts", params={"wait_s": 0.2}, json=endless())

    assert response.status_code == 202
    assert response.json()["verdict"] is None
    client.cancel(response.json()["id"])


def test_put_of_the_same_again_gives_the_first_attempt(http: httpx.Client) -> None:
    place = f"/v1/attempts/{UlidGenerator().new()}"
    first = http.put(place, params={"wait_s": 60}, json=extractor(GOOD))

    second = http.put(place, json=extractor(GOOD))

    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == first.json()


def test_put_of_something_else_under_the_same_id_is_a_conflict(http: httpx.Client) -> None:
    place = f"/v1/attempts/{UlidGenerator().new()}"
    http.put(place, params={"wait_s": 60}, json=extractor(GOOD))

    second = http.put(place, json=extractor(LOUD))

    assert (second.status_code, second.json()["error"]["code"]) == (409, "conflict")


def test_idempotency_key_gives_the_first_attempt_and_refuses_another_body(http: httpx.Client) -> None:
    key = {"Idempotency-Key": UlidGenerator().new()}
    first = http.post("/v1/attempts", headers=key, params={"wait_s": 60}, json=extractor(GOOD))

    same = http.post("/v1/attempts", headers=key, json=extractor(GOOD))
    other = http.post("/v1/attempts", headers=key, json=extractor(LOUD))

    assert (same.status_code, same.json()["id"]) == (200, first.json()["id"])
    assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.each_engine
def test_events_tell_the_whole_way(client: PlainClient) -> None:
    attempt = client.submit(extractor(LOUD, PATH, PATH + ".2"))

    events = list(client.events(attempt["id"]))

    states = [event.body["state"] for event in events if event.kind == "state"]
    assert states == ["queued", "checking", "leasing", "running", "judging", "finished"]
    stages = [(event.body["name"], event.body["status"]) for event in events if event.kind == "stage"]
    passed = [(name, "passed") for name in ("syntax", "security", "signature", "sandbox")]
    assert stages == [*passed, ("quality", "warned")]  # it returns the path itself
    units = [(event.body["name"], event.body["status"]) for event in events if event.kind == "unit"]
    assert units == [(name, how) for name in (PATH, PATH + ".2") for how in ("started", "completed")]
    assert "".join(event.body["text"] for event in events if event.kind == "stdout").startswith("looking at")
    assert events[-1].kind == "finished"
    assert events[-1].body == {"verdict": "validated", "cause": "completed"}


def test_events_resume_after_the_last_one_seen(client: PlainClient) -> None:
    attempt = client.submit(extractor(GOOD), wait_s=60)
    events = list(client.events(attempt["id"]))
    seen = list(takewhile(lambda event: event.kind != "stage", events))[-1]

    rest = list(client.events(attempt["id"], after=seen.id))

    assert rest == events[events.index(seen) + 1 :]


@pytest.mark.each_engine
def test_running_attempt_is_cancelled_and_its_container_goes(
    daemon: DaemonProcess, client: PlainClient
) -> None:
    attempt = client.submit(endless())
    wait_until(client, attempt, "running")

    client.cancel(attempt["id"])

    finished = client.attempt(attempt["id"], wait_s=60)
    assert (finished["verdict"], finished["report"]["status"]) == ("cancelled", "CANCELLED")
    assert finished["cause"] == "cancelled"
    assert daemon.bundle(finished).is_dir()
    with pytest.raises(ClientError) as refused:
        client.cancel(attempt["id"])
    assert (refused.value.status, refused.value.code) == (409, "attempt.finished")


def test_queued_attempt_is_cancelled_without_a_run(daemon: DaemonProcess, client: PlainClient) -> None:
    crowd = [client.submit(endless()) for _ in range(MOST_ACTIVE)]
    last = client.submit(extractor(GOOD))
    assert client.attempt(last["id"])["state"] == "queued"

    client.cancel(last["id"])

    finished = client.attempt(last["id"], wait_s=60)
    assert (finished["verdict"], finished["run_number"]) == ("cancelled", 0)
    assert finished["execution"] is None
    for attempt in crowd:
        client.cancel(attempt["id"])
    verdicts = {client.attempt(attempt["id"], wait_s=60)["verdict"] for attempt in crowd}
    assert verdicts == {"cancelled"}
    recorded = {row["attempt_id"] for row in daemon.rows("SELECT attempt_id FROM verdicts")}
    assert {attempt["id"] for attempt in (*crowd, last)} <= recorded


def test_attempt_records_who_sent_it(client: PlainClient) -> None:
    attempt = client.submit(extractor(GOOD), wait_s=60)

    assert attempt["peer"]["uid"] == int(subprocess.check_output(["id", "-u"]))
    assert attempt["peer"]["pid"] > 0


@needs_root
def test_another_user_sees_only_what_is_theirs(daemon: DaemonProcess, client: PlainClient) -> None:
    ours = client.submit(extractor(GOOD), wait_s=60)

    status, theirs = ask_as_nobody(daemon, "POST", "/v1/attempts?wait_s=60", extractor(GOOD))
    assert (status, theirs["verdict"], theirs["peer"]["uid"]) == (200, "validated", NOBODY)

    for target in ("", "/events", "/artifacts", "/bundle"):
        assert ask_as_nobody(daemon, "GET", f"/v1/attempts/{ours['id']}{target}")[0] == 404
    assert ask_as_nobody(daemon, "POST", f"/v1/attempts/{ours['id']}/cancel")[0] == 404
    assert ask_as_nobody(daemon, "PUT", f"/v1/attempts/{ours['id']}", extractor(GOOD))[0] == 404
    _, page = ask_as_nobody(daemon, "GET", "/v1/attempts")
    listed = {attempt["id"] for attempt in page["attempts"]}
    assert (theirs["id"] in listed, ours["id"] in listed) == (True, False)
    assert client.attempt(theirs["id"])["id"] == theirs["id"]
