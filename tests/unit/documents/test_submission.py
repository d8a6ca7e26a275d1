import json
from collections.abc import Mapping

import pytest
from pydantic import BaseModel, ConfigDict, Field

from assayd.documents import PayloadCaps, read_submission
from assayd.errors import RequestError
from assayd.kind import Cap, Kind
from assayd.kinds.registry import load_own_validators
from support.daemons.small_daemon import SmallKind


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    code: str
    sample_paths: tuple[str, ...] = Field((), max_length=3)
    steps: list[dict[str, str]] = Field(default_factory=list)
    inputs: dict[str, object] = Field(default_factory=dict)


BOUNDED = {
    "code": Cap.SOURCE,
    "sample_paths": Cap.SAMPLE_PATHS,
    "steps.*.content": Cap.SOURCE,
    "steps": Cap.STEPS,
    "inputs": Cap.INPUTS,
}


class Capped(SmallKind):
    name = "extractor"
    payload = Payload
    default_policy = "standard"
    bounded = BOUNDED


class Uncapped(Capped):
    bounded = None


KINDS: Mapping[str, Kind] = {"extractor": Capped()}
GOOD: dict[str, object] = {"kind": "extractor", "payload": {"code": "x = 1", "sample_paths": ["/a"]}}


def body(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def refusal(text: bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_submission(text, KINDS)
    return caught.value


def test_a_small_submission_gets_the_defaults_of_its_kind() -> None:
    submission = read_submission(body(), KINDS)
    assert submission.policy == "standard"
    assert submission.payload == Payload(code="x = 1", sample_paths=("/a",))
    assert (submission.overrides, submission.labels, submission.parent_id) == ({}, {}, None)


def test_the_accepted_document_reads_as_the_same_submission() -> None:
    first = read_submission(
        body(labels={"category": "weather"}, overrides={"resources": {"timeout_s": 5}}, policy="p"), KINDS
    )
    assert read_submission(first.document, KINDS) == first


def test_the_input_digest_depends_on_kind_and_payload_only() -> None:
    plain = read_submission(body(), KINDS)
    labelled = read_submission(body(labels={"a": "b"}, policy="other"), KINDS)
    changed = read_submission(body(payload={"code": "x = 2", "sample_paths": ["/a"]}), KINDS)
    assert plain.input_digest == labelled.input_digest != changed.input_digest


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"kind": "nothing"}, "kind.unknown", "kind"),
        ({"kind": 5}, "invalid", "kind"),
        ({"payload": []}, "invalid", "payload"),
        ({"payload": {}}, "invalid", "payload.code"),
        ({"payload": {"code": 1}}, "invalid", "payload.code"),
        ({"payload": {"code": "x", "extra": 1}}, "invalid", "payload.extra"),
        ({"payload": {"code": "x", "sample_paths": ["/a", 2]}}, "invalid", "payload.sample_paths.1"),
        ({"payload": {"code": "x", "sample_paths": ["/a"] * 4}}, "invalid", "payload.sample_paths"),
        ({"payload": {"code": "x" * (2**20 + 1)}}, "too_large", "payload.code"),
        ({"payload": {"code": "é" * 2**19 + "x"}}, "too_large", "payload.code"),
        (
            {"payload": {"code": "x", "steps": [{"content": "x" * (2**20 + 1)}]}},
            "too_large",
            "payload.steps.0.content",
        ),
        ({"surprise": 1}, "invalid", "surprise"),
        ({"policy": 7}, "invalid", "policy"),
        ({"labels": {"a": "Has Space"}}, "invalid", "labels.a"),
        ({"labels": {"a": "../up"}}, "invalid", "labels.a"),
        ({"labels": {"a": "line\n"}}, "invalid", "labels.a"),
        ({"labels": {"a": "x" * 129}}, "invalid", "labels.a"),
        ({"labels": {"a": "-x"}}, "invalid", "labels.a"),
        ({"labels": {"category": "Reports"}}, "invalid", "labels"),
        ({"labels": {"platform": "a/b"}}, "invalid", "labels"),
        ({"labels": {"platform": "x" * 65}}, "invalid", "labels"),
        ({"labels": {f"k{n}": "v" for n in range(33)}}, "invalid", "labels"),
        ({"overrides": {"resources": {"timeout_s": "5"}}}, "invalid", "overrides.resources.timeout_s"),
        ({"overrides": {"resources": {"timeout_s": True}}}, "invalid", "overrides.resources.timeout_s"),
        ({"overrides": {"resources": {"timeout_s": 0}}}, "invalid", "overrides.resources.timeout_s"),
        ({"overrides": {"resources": {"memory_mb": 1.5}}}, "invalid", "overrides.resources.memory_mb"),
        ({"overrides": {"resources": {"cores": 1}}}, "invalid", "overrides.resources.cores"),
        ({"overrides": {"image": "x"}}, "invalid", "overrides.image"),
        ({"parent_id": "abc"}, "invalid", "parent_id"),
        ({"repair": {"max_attempts": 2}}, "invalid", "repair.provider"),
        ({"repair": {"provider": "p", "max_attempts": 99}}, "invalid", "repair.max_attempts"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(
    changes: dict[str, object], code: str, field: str
) -> None:
    refused = refusal(body(**changes))
    assert (refused.code, refused.field, refused.retryable) == (code, field, False)


@pytest.mark.parametrize("text", [b"[]", b"null", b'"x"', b"{", b'{"kind": "a", "kind": "b"}'])
def test_what_is_no_strict_json_object_is_malformed(text: bytes) -> None:
    assert refusal(text).code == "malformed"


def test_a_source_of_exactly_the_cap_is_read() -> None:
    assert read_submission(body(payload={"code": "é" * 2**19}), KINDS).kind == "extractor"


def test_a_refusal_does_not_repeat_the_value() -> None:
    assert "hunter2" not in refusal(body(labels={"a": "hunter2 !"})).message


def test_several_faults_are_counted() -> None:
    assert "(and 1 more)" in refusal(body(payload={"code": 1, "extra": 2})).message


def test_labels_that_a_payload_implies_are_added_and_given_ones_win() -> None:
    payload = {
        "manifest": {"category": "weather", "platform": "No Label"},
        "files": {"adapter.py": "x = 1\n"},
    }
    given = {"category": "mine", "run": "7"}
    plain = {"kind": "module", "payload": payload}
    assert read_submission(json.dumps(plain).encode(), load_own_validators()).labels == {
        "category": "weather"
    }
    read = read_submission(json.dumps({**plain, "labels": given}).encode(), load_own_validators())
    assert (read.labels, json.loads(read.document)["labels"]) == (given, given)


def test_a_file_over_the_cap_is_too_large() -> None:
    large = {"kind": "module", "payload": {"manifest": {}, "files": {"adapter.py": "#" * (2**20 + 1)}}}
    with pytest.raises(RequestError) as refused:
        read_submission(json.dumps(large).encode(), load_own_validators())
    assert (refused.value.code, refused.value.field) == ("too_large", "payload.files.adapter.py")


@pytest.mark.parametrize(
    ("part", "caps"),
    [
        ({"steps": [{}, {}]}, {"steps": 2}),
        ({"sample_paths": ["/a", "/b"]}, {"sample_paths": 2}),
        ({"inputs": {"n": "é"}}, {"inputs_bytes": len('{"n":"é"}'.encode())}),
        ({"steps": [{"content": "é"}]}, {"source_bytes": 5}),
    ],
    ids=["steps", "paths", "inputs", "source"],
)
def test_parts_of_a_payload_may_be_as_large_as_their_caps_and_no_larger(
    part: dict[str, object], caps: dict[str, int]
) -> None:
    text = body(payload={"code": "x = 1", **part})
    assert read_submission(text, KINDS, caps=PayloadCaps(**caps)).payload

    lower = {name: most - (4 if name == "source_bytes" else 1) for name, most in caps.items()}
    with pytest.raises(RequestError) as refused:
        read_submission(text.replace(b"x = 1", b""), KINDS, caps=PayloadCaps(**lower))

    assert refused.value.code == "too_large"
    assert str(refused.value.field).startswith(f"payload.{next(iter(part))}")


def test_inputs_count_in_their_canonical_form_however_short_they_were_written() -> None:
    text = body(payload={"code": "x", "inputs": {"n": []}}).replace(b"[]", b"[" + b"1e15," * 400 + b"1e15]")
    assert len(text) < 3000

    with pytest.raises(RequestError, match=r"payload\.inputs is larger than 7000 bytes"):
        read_submission(text, KINDS, caps=PayloadCaps(inputs_bytes=7000))
    assert read_submission(text, KINDS, caps=PayloadCaps(inputs_bytes=8000)).payload


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overrides": {"resources": {"timeut_s": 5}}}, "unknown field (did you mean timeout_s?)"),
        ({"polcy": "x"}, "unknown field (did you mean policy?)"),
        ({"payload": {"code": "x", "inpts": {}}}, "unknown field (did you mean inputs?)"),
        ({"payload": {"code": "x", "zzz": 1}}, "unknown field"),
    ],
)
def test_field_that_does_not_exist_is_told_with_the_one_that_was_meant(
    changes: dict[str, object], message: str
) -> None:
    assert refusal(body(**changes)).message.partition(": ")[2] == message


@pytest.mark.parametrize("part", [{"K": 1}, {"labels": {"K": "a"}}, {"overrides": {"resources": {"K": 1}}}])
def test_wrong_key_is_shortened_where_it_is_repeated(part: dict[str, object]) -> None:
    text = body(**part).replace(b'"K"', b'"%b"' % (b"k" * 1_000_000))
    refused = refusal(text)
    assert len(refused.message) + len(refused.field or "") < 1000
    assert "kkk" in refused.message


def test_labels_that_name_no_folder_are_free() -> None:
    labels = {"category": "reports", "ticket": "Team-A/2024.03/X_1", "run": "x" * 128}
    assert read_submission(body(labels=labels), KINDS).labels == labels


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"code": "x" * 13}, "payload.code"),
        ({"steps": [{"content": "y" * 13}]}, "payload.steps.0.content"),
        ({"inputs": {"z" * 13: 1}}, "payload.inputs"),
    ],
)
def test_every_text_is_a_source_for_a_kind_that_says_nothing_of_its_sizes(
    part: dict[str, object], field: str
) -> None:
    kinds: Mapping[str, Kind] = {"extractor": Uncapped()}
    text = body(payload={"code": "x", **part})
    assert read_submission(text, kinds, caps=PayloadCaps(source_bytes=13)).payload

    with pytest.raises(RequestError) as refused:
        read_submission(text, kinds, caps=PayloadCaps(source_bytes=12))

    assert (refused.value.code, refused.value.field) == ("too_large", field)


def test_intent_is_kept_and_does_not_change_what_is_validated() -> None:
    plain, asked = read_submission(body(), KINDS), read_submission(body(intent="take it apart"), KINDS)
    assert asked.intent == "take it apart"
    assert json.loads(asked.document)["intent"] == "take it apart"
    assert asked.input_digest == plain.input_digest
    assert read_submission(asked.document, KINDS) == asked
    assert read_submission(body(intent="é" * 8192), KINDS).intent is not None


@pytest.mark.parametrize("intent", ["", "  \n", "x" * 16385, "é" * 8193, 5, ["x"]])
def test_intent_that_is_too_much_or_nothing_is_refused(intent: object) -> None:
    refused = refusal(body(intent=intent))
    assert (refused.code, refused.field) == ("invalid", "intent")
    assert "Value error" not in refused.message  # pydantic's prefix for errors that a validator raises
