"""The traces of a real daemon, received by a collector."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from support.collector import Collector, Received, collecting
from support.daemons.daemon_fixtures import needs_root, new_daemon
from support.daemons.daemon_process import BIN, DaemonProcess
from support.texts.extractors import GOOD, RAISES, endless, extractor

pytestmark = [pytest.mark.engine, needs_root]

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
STEPS = ["accept", "queued", "static", "lease", "journal", "run", "report", "record"]
SETTINGS = {"POOL__DEFAULT_TARGET": "0"}
WRITER = """
import json, sys
asked = json.load(sys.stdin)
code = {good!r} if "ValueError" in json.dumps(asked) else {bad!r}
print(json.dumps({{"code": code, "reason": "As asked."}}))
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def daemon(collector: Collector) -> Iterator[DaemonProcess]:
    daemon = new_daemon("oci", settings={**SETTINGS, "TRACING__ENDPOINT": collector.endpoint})
    writer = daemon.home / "writer.py"
    writer.write_text(WRITER.format(good=GOOD, bad=RAISES))
    providers = {"played": {"type": "command", "argv": [sys.executable, str(writer)]}}
    daemon.settings["REPAIR__PROVIDERS"] = json.dumps(providers)
    daemon.start()
    yield daemon
    daemon.dispose()


@pytest.fixture(autouse=True)
def forget(collector: Collector) -> None:
    collector.requests.clear()
    collector.headers.clear()


def validate(daemon: DaemonProcess, code: str, folder: Path, **environment: str) -> None:
    """Validate code on the command line, as a program in a pipeline would."""
    file = folder / "code.py"
    file.write_text(code)
    command = [BIN / "assay", "validate", "extractor", file, "--sample-path", "/secret/zebra/2024/Q1/x.csv"]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket), **environment}
    subprocess.run(command, env=environ, capture_output=True, check=False, timeout=120)


def children(collector: Collector, parent: Received) -> list[str]:
    return [span.name for span in collector.spans if span.parent_id == parent.span_id]


def test_attempt_continues_the_trace_of_the_environment(
    daemon: DaemonProcess, collector: Collector, tmp_path: Path
) -> None:
    validate(daemon, GOOD, tmp_path, TRACEPARENT=PARENT, TRACESTATE="rojo=1")
    (attempt,) = collector.wait_for("attempt")
    assert (attempt.trace_id, attempt.parent_id, attempt.kind) == (TRACE, CALLER, "server")
    assert attempt.facts["verdict"] == "validated"
    assert attempt.facts["kind"] == "extractor"
    assert children(collector, attempt) == STEPS
    (run,) = collector.wait_for("run")
    assert children(collector, run) == ["unit"]
    (static,) = collector.wait_for("static")
    assert children(collector, static) == ["stage syntax", "stage security", "stage signature"]
    assert all(span.trace_id == TRACE for span in collector.spans)
    assert all(attempt.began_ns <= span.began_ns <= span.ended_ns for span in collector.spans)


def test_spans_hold_no_code_and_no_text_of_the_user(
    daemon: DaemonProcess, collector: Collector, tmp_path: Path
) -> None:
    validate(daemon, "zebra = 1\n" + RAISES + "\nprint('zebra')\n", tmp_path)
    (attempt,) = collector.wait_for("attempt")
    assert attempt.facts["verdict"] == "failed"
    assert not attempt.failed  # submitted code failed, not the service
    delivered = collector.text()
    assert "zebra" not in delivered
    assert "secret" not in delivered


def test_lines_of_the_log_name_the_span(daemon: DaemonProcess, collector: Collector, tmp_path: Path) -> None:
    daemon.log.forget()
    validate(daemon, GOOD, tmp_path, TRACEPARENT=PARENT)
    (attempt,) = collector.wait_for("attempt")
    line = daemon.log.wait_for("attempt.finished")
    assert (line["trace_id"], line["span_id"]) == (TRACE, attempt.span_id)
    answered = daemon.log.wait_for("request.answered", route="/v1/attempts")
    assert answered["trace_id"] == TRACE


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", "00-00-00-01")],
        [("traceparent", PARENT), ("traceparent", PARENT)],
        [("traceparent", PARENT.upper())],
        [("traceparent", "\xff" * 200)],
        [("traceparent", PARENT + "-" + "x" * 8000)],
    ],
)
def test_hostile_header_is_ignored(
    daemon: DaemonProcess, collector: Collector, headers: list[tuple[str, str]]
) -> None:
    with daemon.http() as http:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        answer = http.post("/v1/attempts?wait_s=60", json=extractor("x ="), headers=raw)
    assert answer.status_code == 200
    (attempt,) = collector.wait_for("attempt")
    assert attempt.parent_id == ""
    assert attempt.trace_id != TRACE


def test_hostile_state_is_left_out_and_the_trace_continued(
    daemon: DaemonProcess, collector: Collector
) -> None:
    with daemon.http() as http:
        headers = {"traceparent": PARENT, "tracestate": "a=1,a=1," + "x" * 4000}
        http.post("/v1/attempts?wait_s=60", json=extractor("x ="), headers=headers)
    (attempt,) = collector.wait_for("attempt")
    assert attempt.trace_id == TRACE


def test_client_sends_the_current_span(daemon: DaemonProcess, collector: Collector) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    with tracer.start_as_current_span("deploy") as span, daemon.client() as client:
        client.submit(extractor("x ="), wait_s=60)
    (attempt,) = collector.wait_for("attempt")
    assert attempt.trace_id == f"{span.get_span_context().trace_id:032x}"
    assert attempt.parent_id == f"{span.get_span_context().span_id:016x}"


def test_repaired_generation_is_one_trace(daemon: DaemonProcess, collector: Collector) -> None:
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket), "TRACEPARENT": PARENT}
    words = [
        "generate",
        "extractor",
        "client, year and quarter of the zebra",
        "--yes",
        "--name",
        "traced",
        "--json",
    ]
    command = [BIN / "assay", *words, "--sample-path", "/data/CLIENT-ABC/2024/Q1/report.csv"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert json.loads(done.stdout)["outcome"] == "validated", done.stdout + done.stderr
    (generation,) = collector.wait_for("generation")
    assert (generation.trace_id, generation.parent_id) == (TRACE, CALLER)
    assert generation.facts["outcome"] == "validated"
    assert children(collector, generation) == ["answer", "attempt", "repair"]
    (repair,) = collector.wait_for("repair")
    assert repair.facts["outcome"] == "repaired"
    assert children(collector, repair) == ["answer", "attempt"]
    verdicts = [span.facts["verdict"] for span in collector.wait_for("attempt", 2)]
    assert verdicts == ["failed", "validated"]
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert "zebra" not in collector.text()


def test_repair_of_an_attempt_is_in_its_trace(daemon: DaemonProcess, collector: Collector) -> None:
    with daemon.client() as client:
        wish = {"provider": "played", "max_attempts": 2}
        client.submit({**extractor(RAISES), "repair": wish}, wait_s=60)
    (repair,) = collector.wait_for("repair")
    failed, validated = collector.wait_for("attempt", 2)
    assert repair.parent_id == failed.span_id
    assert validated.parent_id == repair.span_id
    assert repair.facts["provider"] == "played"


def test_items_of_a_batch_have_traces_of_their_own(
    daemon: DaemonProcess, collector: Collector, tmp_path: Path
) -> None:
    lines = tmp_path / "items.jsonl"
    lines.write_text("\n".join(json.dumps(extractor(f"x = {n}")) for n in range(3)))
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket), "TRACEPARENT": PARENT}
    command = [BIN / "assay", "batch", "run", lines, "--name", "traced"]
    subprocess.run(command, env=environ, capture_output=True, check=False, timeout=120)
    attempts = collector.wait_for("attempt", 3)
    assert len({span.trace_id for span in attempts} | {TRACE}) == 4
    assert all(span.facts["batch_id"] and span.parent_id == "" for span in attempts)
    assert all(span.links == [TRACE] for span in attempts)


def test_attempt_goes_on_in_its_trace_after_a_crash() -> None:
    with collecting() as collector:
        daemon = new_daemon("oci", settings={**SETTINGS, "TRACING__ENDPOINT": collector.endpoint})
        try:
            daemon.start()
            with daemon.http() as http:
                http.post("/v1/attempts", json=endless(), headers={"traceparent": PARENT})
                while http.get("/v1/attempts?state=running").json()["attempts"] == []:
                    time.sleep(0.05)
            daemon.kill()
            daemon.start()
            with daemon.client() as client:
                client.cancel(client.attempts()["attempts"][0]["id"])
            (attempt,) = collector.wait_for("attempt", recovered=True)
        finally:
            daemon.dispose()
    assert attempt.trace_id == TRACE
    assert attempt.parent_id not in {"", CALLER}  # the span that the crash took


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a collector that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces"


def test_collector_that_is_away_costs_nothing(silent: str) -> None:
    settings = {**SETTINGS, "TRACING__ENDPOINT": silent, "TRACING__QUEUE": "20", "TRACING__TIMEOUT_S": "60"}
    daemon = new_daemon("oci", settings=settings)
    try:
        daemon.start()
        with daemon.client() as client, daemon.http() as http:
            verdicts = [client.submit(extractor("x ="), wait_s=60)["verdict"] for _ in range(10)]
            metrics = http.get("/metrics").text
        began = time.monotonic()
        assert daemon.stop() == 0
        took_s = time.monotonic() - began
    finally:
        daemon.dispose()
    assert verdicts == ["failed"] * 10
    (line,) = [line for line in metrics.splitlines() if line.startswith("assayd_trace_spans_total")]
    assert line.startswith('assayd_trace_spans_total{outcome="dropped"}')
    assert float(line.split()[-1]) > 0
    assert took_s < 10
    assert daemon.log.events("traces.dropped")


def test_collector_that_refuses_is_counted_and_told_once() -> None:
    with collecting() as collector:
        collector.status = 400
        daemon = new_daemon("oci", settings={**SETTINGS, "TRACING__ENDPOINT": collector.endpoint})
        try:
            daemon.start()
            with daemon.client() as client:
                assert client.submit(extractor("x ="), wait_s=60)["verdict"] == "failed"
            daemon.log.wait_for("traces.not_exported")
            with daemon.http() as http:
                assert 'assayd_trace_spans_total{outcome="failed"}' in http.get("/metrics").text
            collector.status = 200
            with daemon.client() as client:
                client.submit(extractor("x = 1 +"), wait_s=60)
            daemon.log.wait_for("traces.exported_again")
        finally:
            daemon.dispose()
    assert len(daemon.log.events("traces.not_exported")) == 1


def test_daemon_without_a_collector_imports_neither_the_wing_nor_the_sdk() -> None:
    daemon = new_daemon("oci", settings=SETTINGS)
    daemon.program = (sys.executable, "-X", "importtime", "-m", "assayd")
    try:
        daemon.start()
        daemon.log.forget()
        with daemon.http() as http:
            answer = http.post(
                "/v1/attempts?wait_s=60", json=extractor("x ="), headers={"traceparent": PARENT}
            )
        assert answer.json()["verdict"] == "failed"
        assert "trace_id" not in daemon.log.wait_for("attempt.finished")
        assert daemon.stop() == 0
    finally:
        daemon.dispose()
    imported = "\n".join(line for line in daemon.log.lines if line.startswith("import time:"))
    assert "assayd.attempts.lifecycle" in imported
    assert "opentelemetry.sdk" not in imported
    assert "opentelemetry.exporter" not in imported
    assert "assayd_tracing" not in imported
