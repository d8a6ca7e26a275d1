"""A profile in report mode: which submissions pass with warnings, and which are still refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd_client import ClientError, Document, PlainClient
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

STEPS = 'mkdir -p data; echo 1 > data/x; eval "rm data/x"; chmod +x tmp 2>/dev/null; ls /usr/bin/rm'


def extractor(code: str, policy: str) -> Document:
    payload = {"code": code, "sample_paths": ["/data/2024/report.csv"]}
    return {"kind": "extractor", "policy": policy, "payload": payload}


def bash(content: str, policy: str) -> Document:
    step = {"name": "s", "type": "bash", "content": content}
    return {"kind": "pipeline", "policy": policy, "payload": {"steps": [step]}}


def test_code_that_enforcement_refuses_passes_with_warnings_under_contained(client: PlainClient) -> None:
    code = "import os\n\ndef extract(path):\n    return {'n': eval('1 + 1'), 'cwd': os.getcwd()}\n"
    enforced = client.submit(extractor(code, "extractor"), wait_s=60)
    reported = client.submit(extractor(code, "contained"), wait_s=60)

    assert (enforced["verdict"], enforced["enforcement"]) == ("failed", "enforce")
    assert (reported["verdict"], reported["enforcement"]) == ("validated", "report")
    assert reported["report"]["runtime_results"]["cases"][0]["result"] == {"n": 2, "cwd": "/sandbox"}
    found = reported["report"]["findings"]
    assert {f["rule"] for f in found if f["severity"] == "warning"} >= {"builtin.not_allowed"}
    assert all("Reported only" in f["message"] for f in found if f["profile_key"])


def test_syntax_error_fails_under_contained(client: PlainClient) -> None:
    assert client.submit(extractor("def extract(path:", "contained"), wait_s=60)["verdict"] == "failed"


def test_step_sees_the_programs_of_the_whole_image_under_contained(client: PlainClient) -> None:
    assert client.submit(bash(STEPS, "contained"), wait_s=60)["verdict"] == "validated"
    assert client.submit(bash(STEPS, "pipeline"), wait_s=60)["verdict"] == "failed"


def test_error_that_a_step_ignores_fails_it_only_where_the_profile_says_so(client: PlainClient) -> None:
    script = "frob() { cat data/$1; }; frob none; echo done"
    assert client.submit(bash(script, "pipeline"), wait_s=60)["verdict"] == "failed"
    assert client.submit(bash(script, "contained"), wait_s=60)["verdict"] == "validated"


def test_script_that_only_bash_can_read_is_left_to_the_run_under_contained(client: PlainClient) -> None:
    script = "let x=( 6 \\* 7 )\necho $x\n"
    assert client.submit(bash(script, "pipeline"), wait_s=60)["verdict"] == "failed"
    done = client.submit(bash(script, "contained"), wait_s=60)
    assert (done["verdict"], done["report"]["runtime_results"]["cases"][0]["stdout"]) == ("validated", "42\n")


@pytest.mark.parametrize(
    "code",
    [
        "import socket\n\ndef extract(path):\n    socket.create_connection((path, 80), 1)\n    return {}\n",
        "def extract(path):\n    open('/etc/assayd-probe', 'w')\n    return {}\n",
        "import os\n\ndef extract(path):\n    os.setuid(0)\n    return {}\n",
    ],
)
def test_container_refuses_network_root_files_and_users_in_each_mode(client: PlainClient, code: str) -> None:
    done = client.submit(extractor(code, "contained"), wait_s=60)
    assert (done["verdict"], done["cause"]) == ("failed", "exited_nonzero")


def test_result_under_contained_cannot_be_approved_and_list_says_report_only(
    daemon: DaemonProcess, client: PlainClient
) -> None:
    code = "def extract(path):\n    return {'name': path}\n"
    done = client.submit(extractor(code, "contained"), wait_s=60)
    with pytest.raises(ClientError) as refused:
        client.approve(done["id"], "names")
    assert refused.value.code == "library.report_only"
    [row] = [row for row in daemon.assay("list").stdout.splitlines() if row.startswith(done["id"])]
    assert row.endswith("\treport-only")
    assert client.submit(extractor(code, "extractor"), wait_s=60)["approvable"] is True


def test_commit_of_a_step_under_contained_is_refused(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    done = client.submit(bash("echo 1 > data/x", "contained"), wait_s=60)
    refused = daemon.assay("pipeline", "commit", done["id"], "--database", tmp_path / "x.db")
    assert "only reported" in refused.stderr, refused.stderr


@pytest.mark.parametrize(
    "script",
    [
        'p=\'{ system("/usr/bin/rm data/x"); "/usr/bin/rm data/x" | getline }\'; q=$(echo "$p")\n'
        'awk "$(cat data/p)" data/x || true',
        'sed "$(cat data/s)" data/x || true',
        'sed "$(cat data/w)" data/x || true',
        "trap frob USR1",
    ],
)
def test_programs_that_rules_leave_to_the_run_can_neither_run_nor_write_outside(
    client: PlainClient, script: str
) -> None:
    files = {
        "data/x": "1\n",
        "data/p": '{ system("/usr/bin/rm data/x"); print > "/usr/x" }',
        "data/s": "1e /usr/bin/rm data/x",
        "data/w": "w /usr/x",
    }
    check = "cat data/x; [ ! -e /usr/x ]"
    steps = [{"name": str(n), "type": "bash", "content": text} for n, text in enumerate((script, check))]
    done = client.submit({"kind": "pipeline", "payload": {"steps": steps, "files": files}}, wait_s=60)
    cases = done["report"]["runtime_results"]["cases"]
    assert (done["verdict"], cases[1]["stdout"]) == ("validated", "1\n")
    assert all(f["severity"] == "warning" for f in done["report"]["findings"])


def test_operator_in_a_variable_is_left_to_the_run(client: PlainClient) -> None:
    done = client.submit(bash("set -- 6 '*' 7\necho $(( $1 $2 $3 ))", "pipeline"), wait_s=60)
    assert done["report"]["runtime_results"]["cases"][0]["stdout"] == "42\n"


def test_tmp_is_the_sandboxs_tmp_and_no_artifact(client: PlainClient) -> None:
    script = "echo 1 > /tmp/x; cat tmp/x; f=$(mktemp); echo 2 > $f; cd /tmp; ls | wc -l; printenv TMPDIR"
    done = client.submit(bash(script, "pipeline"), wait_s=60)
    assert done["verdict"] == "validated"
    assert done["report"]["runtime_results"]["cases"][0]["stdout"] == "1\n2\n/sandbox/tmp\n"
    assert not any("tmp" in one["name"] for one in done["artifacts"])


@pytest.mark.parametrize("place", ["'/tmp/x'", "__import__('tempfile').mktemp()"])
def test_python_writes_below_tmp_in_each_mode(client: PlainClient, place: str) -> None:
    code = f"import tempfile\np = {place}\nopen(p, 'w').write('1')\nresult: str = open(p).read()\n"
    node = {"kind": "code", "payload": {"code": code, "inputs": {}}}
    script = {"kind": "script", "payload": {"code": code}}
    enforced = {**script, "policy": "default"}
    done = [client.submit(one, wait_s=60) for one in (node, script, enforced)]
    assert [one["verdict"] for one in done] == ["validated"] * 3, [one["report"]["findings"] for one in done]


def test_other_folders_stay_read_only_and_the_hint_names_the_writable_one(client: PlainClient) -> None:
    script = {"kind": "script", "payload": {"code": "open('/usr/x', 'w')"}}
    [finding] = client.submit(script, wait_s=60)["report"]["findings"][-1:]
    assert "below /tmp" in finding["suggestion"]


def test_sql_has_the_functions_of_the_shell_and_readfile_stays_below_data(client: PlainClient) -> None:
    sql = (
        "CREATE TABLE IF NOT EXISTS t (a);\n"
        "INSERT INTO t SELECT value FROM generate_series(1, 3);\n"
        "SELECT count(*), 'b2' REGEXP '[0-9]', CAST(readfile('data/x') AS TEXT) FROM t;"
    )
    payload = {"steps": [{"name": "s", "type": "sql", "content": sql}], "files": {"data/x": "hello"}}
    payload["database"] = {"schema_sql": "CREATE TABLE old (a);"}
    done = client.submit({"kind": "pipeline", "payload": payload}, wait_s=60)
    assert "3\t1\thello" in done["report"]["runtime_results"]["cases"][0]["stdout"]

    outside = "SELECT readfile(p) FROM (SELECT '/etc/' || 'passwd' AS p)"
    payload["steps"] = [{"name": "s", "type": "sql", "content": outside}]
    done = client.submit({"kind": "pipeline", "payload": payload}, wait_s=60)
    assert done["verdict"] == "failed"
    assert "below data/ only" in done["report"]["findings"][-1]["message"]


RE = "import re\n\ndef extract(path):\n    return {'n': re.sub('a', 'b', path)}\n"
PLAIN = "def extract(path):\n    return {'n': path}\n"
COLORS = "import colorsys\n\ndef extract(path):\n    return {'n': colorsys.rgb_to_hls(0, 0, 0)[0]}\n"


def labeled(code: str, label: str) -> Document:
    return {**extractor(code, "extractor"), "labels": {"trial": label}}


def trial(client: PlainClient, policy: str, **wanted: object) -> Document:
    *_, last = client.try_policy(policy, **wanted)
    assert last.kind == "finished"
    return last.body


def test_trial_names_what_would_fail_and_what_would_pass(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    for code in (RE, PLAIN, COLORS):
        client.submit(labeled(code, "a"), wait_s=60)
    text = 'extends = "extractor"\n[imports]\ndenied = ["re"]\nallowed = ["colorsys"]\n'
    found = trial(client, "mine", profile=text, labels=["trial=a"])

    assert (found["tried"], found["would_fail"], found["would_pass"], found["complete"]) == (3, 1, 1, True)
    changes = {(one["direction"], one["rule"], one["count"]) for one in found["changes"]}
    assert changes == {("would_fail", "import.not_allowed", 1), ("would_pass", "import.not_allowed", 1)}

    file = tmp_path / "mine.toml"
    file.write_text(text)
    done = daemon.assay("policy", "try", file, "--label", "trial=a", "--since", "1h")
    assert done.returncode == 1
    assert "would fail      1  import.not_allowed (imports.allowed)" in done.stdout
    assert daemon.assay("policy", "try", "extractor", "--label", "trial=a").returncode == 0


def test_trial_with_run_validates_in_full(client: PlainClient) -> None:
    code = "def extract(path):\n    return {'n': open('/etc/passwd').read()[:1]}\n"
    refused_first = client.submit(labeled(code, "b"), wait_s=60)
    found = trial(client, "contained", run=True, labels=["trial=b"])
    assert refused_first["verdict"] == "failed"
    assert (found["mode"], found["tried"], found["would_pass"]) == ("run", 1, 1)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["extractor", "--python", "import socket"], 1, "import.not_allowed [imports.allowed]: "),
        (["code", "--python", "import socket"], 0, "code allows it, as the kind code reads it"),
        (["pipeline", "--bash", "rm x"], 1, "The command rm is blocked."),
        (["pipeline", "--sql", "DROP TABLE t"], 1, "sql.drop"),
        (["pipeline", "https://example.com"], 1, "pipeline refuses https://example.com"),
        (["pipeline"], 2, "pass a URL, or one of --python, --bash or --sql"),
        (["absent", "--sql", "SELECT 1"], 2, "absent"),
    ],
)
def test_explanation_of_a_line_names_the_rule(
    daemon: DaemonProcess, line: list[str], code: int, said: str
) -> None:
    done = daemon.assay("policy", "explain", *line)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_trial_of_an_unknown_profile_or_of_a_file_with_errors_is_refused(client: PlainClient) -> None:
    for wanted, code in (({}, "policy.unknown"), ({"profile": "x = 1"}, "invalid")):
        with pytest.raises(ClientError) as refused:
            list(client.try_policy("nothing", **wanted))
        assert refused.value.code == code


def test_suggestion_is_a_profile_under_which_the_trial_passes(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    client.submit(labeled(COLORS, "c"), wait_s=60)
    client.submit(labeled("import subprocess\n\ndef extract(path):\n    return {}\n", "c"), wait_s=60)
    found = client.suggest_policy("extractor", labels=["trial=c"])
    assert [(one["name"], one["count"]) for one in found["additions"]] == [("colorsys", 1)]
    assert [one["name"] for one in found["withheld"]] == ["subprocess"]
    again = trial(client, "more", profile=found["toml"], labels=["trial=c"])
    assert (again["would_pass"], again["would_fail"]) == (1, 0)

    shown = daemon.assay("policy", "suggest", "--policy", "extractor", "--label", "trial=c")
    assert 'allowed = ["colorsys"]' in shown.stdout
    assert "withheld: imports.allowed subprocess" in shown.stdout
    file = tmp_path / "more.toml"
    file.write_text(shown.stdout)
    assert daemon.assay("policy", "check", file).returncode == 0
