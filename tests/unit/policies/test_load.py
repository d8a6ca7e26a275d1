from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd.model.policy import HttpRule, LimitRange, LimitRanges
from assayd.policies import PolicySet, load_policies, require_enforceable
from assayd.tomlfile import FileError

Load = Callable[..., PolicySet]


def test_unknown_policy_is_refused_with_the_nearest_name_and_all_names(load: Load) -> None:
    policies = load(default="", extended="")
    with pytest.raises(RequestError, match=r"did you mean default\?.*default, extended") as caught:
        policies.get("defualt")
    assert (caught.value.code, caught.value.field) == ("policy.unknown", "policy")


def test_problems_of_all_files_are_reported_together(load: Load, folder: Path) -> None:
    with pytest.raises(FileError) as caught:
        load(a="[resources]\ntimout_s = 1\n", b="\nmemory = 3\n", c="x = \n")
    places = [(p.path.name, p.line) for p in caught.value.problems]
    assert places == [("a.toml", 2), ("b.toml", 2), ("c.toml", 1)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "true", "'5'", "[5]"])
def test_limit_that_is_not_a_finite_number_is_refused_with_its_line(load: Load, value: str) -> None:
    with pytest.raises(FileError) as caught:
        load(a=f"[resources]\n\ntimeout_s = {value}\n")
    assert [p.line for p in caught.value.problems] == [3]


@pytest.mark.parametrize("value", ["1.5", "true", "'4'"])
def test_process_limit_that_is_not_whole_is_refused(load: Load, value: str) -> None:
    with pytest.raises(FileError, match=r"a\.toml:2: \[resources\] max_processes: "):
        load(a=f"[resources]\nmax_processes = {value}\n")


def test_limits_beyond_the_bounds_are_clamped_and_recorded(load: Load) -> None:
    policy = load(
        a="[resources]\ntimeout_s = 600\nunit_timeout_s = 0.1\nmemory_mb = 32\nmax_processes = 99\n"
    ).get("a")
    assert [(c.field, c.requested, c.effective) for c in policy.clamped] == [
        ("resources.timeout_s", 600, 60),
        ("resources.unit_timeout_s", 0.1, 1),
        ("resources.memory_mb", 32, 64),
        ("resources.max_processes", 99, 8),
    ]
    assert policy.resources.memory_bytes == 64 * 2**20


def test_unit_deadline_is_held_to_the_attempts(load: Load) -> None:
    policy = load(a="[resources]\ntimeout_s = 10\nunit_timeout_s = 20\n").get("a")
    assert policy.resources.unit_timeout_s == 10


def test_own_bounds_reach_as_far_as_the_operator_allows_and_no_further(load: Load) -> None:
    asked = "[resources]\nmax_processes = 200\ntimeout_s = 100\n"
    policy = load(a=asked + "[bounds]\nmax_processes = [1, 500]\ntimeout_s = [1, 500]\n").get("a")
    assert policy.resources.max_processes == 64
    assert policy.resources.timeout_s == 60


def test_bounds_of_the_operator_replace_the_defaults(folder: Path) -> None:
    (folder / "a.toml").write_text("[resources]\ntimeout_s = 100\n")
    wide = LimitRanges(timeout_s=LimitRange(least=1, most=300))
    assert load_policies([folder], bounds=wide).get("a").resources.timeout_s == 100


def test_bounds_that_are_upside_down_are_refused_with_their_line(load: Load) -> None:
    with pytest.raises(FileError, match=r"a\.toml:2: \[bounds\] memory_mb: the minimum exceeds the maximum"):
        load(a="[bounds]\nmemory_mb = [512, 64]\n")


def test_later_folder_replaces_a_profile_of_the_same_name(tmp_path: Path) -> None:
    for name, seconds in (("one", 10), ("two", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.toml").write_text(f"[resources]\ntimeout_s = {seconds}\n")
    policies = load_policies([tmp_path / "one", tmp_path / "two"])
    assert policies.get("a").resources.timeout_s == 20
    assert policies.path("a") == tmp_path / "two" / "a.toml"


def test_missing_folder_is_a_problem_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="can't be listed"):
        load_policies([tmp_path / "none"])


def test_file_whose_name_cannot_be_a_profiles_is_refused(folder: Path) -> None:
    (folder / "Bad Name.toml").write_text("")
    with pytest.raises(FileError, match="the file name is the profile name"):
        load_policies([folder])


def test_unknown_category_is_refused_with_its_line(load: Load) -> None:
    message = r"a\.toml:3: \[imports\] categories: unknown import category 'standard_libs' \(did you mean"
    with pytest.raises(FileError, match=message):
        load(a="[imports]\n# which\ncategories = ['standard_libs']\n")


def test_allowlist_with_hosts_is_refused_at_use_when_the_relay_is_switched_off(load: Load) -> None:
    policy = load(a="[network]\nmode = 'allowlist'\nhosts = ['API.Example.org.']\n").get("a")
    assert policy.network.hosts == {"api.example.org"}
    require_enforceable(policy)
    with pytest.raises(RequestError, match="the relay is off") as caught:
        require_enforceable(policy, egress=False)
    assert caught.value.code == "policy.unenforceable"


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "0x7f000001", "a b", "http://x.org", "x.org:443", "[::1]", "", ".", "*.x.org", "straße.de"],
)
def test_host_that_is_not_a_name_is_refused(load: Load, host: str) -> None:
    with pytest.raises(FileError, match=r"a\.toml:2: \[network\] hosts"):
        load(a=f"[network]\nhosts = ['{host}']\n")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", ".localhost", "db.localhost", "localhost.localdomain", "ip6-localhost"],
)
def test_name_of_the_machine_itself_is_refused_in_an_allowlist(load: Load, host: str) -> None:
    with pytest.raises(FileError, match=r"a\.toml:2: \[network\] hosts: .*names this machine"):
        load(a=f"[network]\nhosts = ['{host}']\n")
    with pytest.raises(FileError, match="names this machine"):
        load(a=f"[network.http.'{host}']\nmethods = ['GET']\n")


def test_public_name_that_only_looks_like_the_machine_is_taken(load: Load) -> None:
    hosts = {"localhost.example.org", "mylocalhost.org"}
    assert load(a=f"[network]\nhosts = {sorted(hosts)}\n").get("a").network.hosts == hosts


WIDE = "[imports]\nallowed = ['json', 're', 'xml']\n[imports.names]\nre = ['match']\nos = ['sep']\n"


def test_only_keeps_the_modules_that_it_names_of_what_is_extended(load: Load) -> None:
    narrow = "extends = 'wide'\n[imports]\nonly = ['re', 'xml.etree']\nallowed = ['math']\n"
    imports = load(wide=WIDE, narrow=narrow).get("narrow").imports
    assert imports.allowed == {"re", "xml.etree", "math"}
    assert imports.names == {"re": {"match"}}
    assert [m for m in ("json", "os", "xml", "xml.sax") if imports.allows(m)] == []


def test_only_leaves_no_category_and_keeps_what_is_denied(load: Load) -> None:
    wide = "[imports]\ncategories = ['standard_lib']\ndenied = ['os.system']\n"
    imports = load(wide=wide, narrow="extends = 'wide'\n[imports]\nonly = ['os']\n").get("narrow").imports
    assert (imports.categories, imports.allowed, imports.denied) == ((), {"os"}, {"os.system"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("extends = 'wide'\n[imports]\nonly = ['maths']\n", "can't narrow to 'maths': no profile"),
        ("#\n[imports]\nonly = ['re']\n", "can't narrow to 're': this profile extends none"),
        ("extends = 'wide'\n[imports]\nonly = []\n", "at least 1"),
    ],
)
def test_only_that_narrows_nothing_is_refused_with_its_line(load: Load, text: str, said: str) -> None:
    with pytest.raises(FileError, match=r"narrow\.toml:3: \[imports\] only: ") as caught:
        load(wide=WIDE, narrow=text)
    assert said in caught.value.message


def test_check_of_a_good_file_finds_nothing(load: Load, tmp_path: Path) -> None:
    policies = load(default="")
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "new.toml"
    path.write_text("extends = 'default'\n")
    assert policies.resolve_file(path).name == "new"


def test_check_of_a_file_finds_what_cannot_be_enforced(load: Load, folder: Path) -> None:
    load(default="")
    policies = load_policies([folder], egress=False)
    path = folder / "new.toml"
    path.write_text("[network]\nmode = 'allowlist'\nhosts = ['x.org']\n")
    with pytest.raises(FileError) as caught:
        policies.resolve_file(path)
    assert [problem.line for problem in caught.value.problems] == [3]


def test_check_of_a_bad_file_gives_problems_and_leaves_the_set(load: Load, folder: Path) -> None:
    policies = load(default="")
    path = folder / "new.toml"
    path.write_text("extends = 'defalt'\n")
    with pytest.raises(FileError) as caught:
        policies.resolve_file(path)
    assert [str(problem) for problem in caught.value.problems] == [
        f"{path}:1: extends: unknown profile 'defalt' (did you mean default?)"
    ]
    assert policies.names == ("default",)


def test_reload_with_a_broken_file_keeps_what_was_loaded(load: Load, folder: Path) -> None:
    policies = load(default="[resources]\ntimeout_s = 7\n")
    (folder / "default.toml").write_text("oops")
    with pytest.raises(FileError):
        policies.reload()
    assert policies.get("default").resources.timeout_s == 7


HTTP = "[network]\nmode = 'allowlist'\nhosts = ['a.org']\nports = [80]\n"


def test_host_with_a_rule_is_listed_by_it(load: Load) -> None:
    rule = "[network.http.'B.org']\nmethods = ['GET']\npaths = ['/x', '/y/']\n"
    network = load(a=HTTP + rule).get("a").network

    assert network.hosts == {"a.org", "b.org"}
    assert network.http == {"b.org": HttpRule(methods=frozenset({"GET"}), paths=frozenset({"/x", "/y/"}))}


@pytest.mark.parametrize(
    "rule",
    [
        "methods = ['get']",
        "methods = ['CONNECT']",
        "methods = []",
        "paths = []",
        "paths = ['x']",
        "paths = ['/a/../b']",
        "paths = ['/a?b']",
        "method = ['GET']",
    ],
)
def test_rule_that_means_nothing_is_refused_with_its_line(load: Load, rule: str) -> None:
    with pytest.raises(FileError) as caught:
        load(a=f"{HTTP}[network.http.'b.org']\n{rule}\n")
    assert [p.line for p in caught.value.problems] == [6]


@pytest.mark.parametrize("entry", ["b.org", ".org"])
def test_rule_of_a_host_that_is_listed_without_one_is_refused(load: Load, entry: str) -> None:
    text = f"[network]\nmode = 'allowlist'\nhosts = ['{entry}']\n[network.http.'b.org']\nmethods = ['GET']\n"
    with pytest.raises(FileError, match=r"a\.toml:4: .*has no effect"):
        load(a=text)


def test_rule_of_a_child_replaces_that_of_its_parent_and_a_listing_frees_the_host(load: Load) -> None:
    rule = "[network.http.'b.org']\nmethods = ['GET']\n"
    policies = load(
        parent=HTTP + rule,
        other="extends = 'parent'\n[network.http.'b.org']\nmethods = ['PUT']\n",
        free="extends = 'parent'\n[network]\nhosts = ['b.org']\n",
    )
    assert policies.get("other").network.http["b.org"].methods == {"PUT"}
    assert policies.get("free").network.http == {}


def test_contract_of_adapters_is_replaced_list_by_list_and_forbidden_names_add_up(load: Load) -> None:
    policies = load(
        base='[adapter]\nmethods = ["a", "b"]\nmodules = ["one.two"]\nforbidden = ["os.kill"]\n',
        own='extends = "base"\n[adapter]\nmethods = ["c"]\nforbidden = ["eval"]\n',
        plain="",
    )
    own = policies.get("own").adapter
    assert (own.methods, own.modules, own.forbidden) == (("c",), ("one.two",), {"os.kill", "eval"})
    assert own.decorators == ("register_adapter",)
    assert policies.get("plain").adapter.methods == ("fetch_raw", "transform", "get_schema")
    assert policies.get("own").digest != policies.get("base").digest


def test_contract_of_adapters_that_cannot_be_is_told_with_its_line(load: Load) -> None:
    text = '[adapter]\nmethods = ["a b"]\ndecorators = []\nmodules = ["a..b"]\ncolour = "red"\n'
    with pytest.raises(FileError) as caught:
        load(bad=text)
    assert [(p.line, p.key) for p in sorted(caught.value.problems, key=lambda p: p.line or 0)] == [
        (2, "adapter.methods"),
        (3, "adapter.decorators"),
        (4, "adapter.modules"),
        (5, "adapter.colour"),
    ]
