from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import assayd
from assayd.errors import ConfigError
from assayd.model.policy import DEFAULT_BOUNDS, LimitRange
from assayd.settings import Settings, list_effective_settings, load_settings

Config = Callable[[str], Path]


def source_of(settings: Settings, name: str) -> str:
    return next(row.source for row in list_effective_settings(settings) if row.name == name)


def test_variable_wins_over_the_file_and_the_file_over_the_default(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config("concurrency = 3\n\n[pool]\ndefault_target = 4\nenabled = false\n")
    monkeypatch.setenv("ASSAYD_POOL__DEFAULT_TARGET", "7")
    settings = load_settings()
    assert (settings.concurrency, settings.pool.default_target, settings.pool.enabled) == (3, 7, False)
    assert settings.pool.ceiling_idle_memory_mb == 1024
    assert source_of(settings, "concurrency") == f"{path}:1"
    assert source_of(settings, "pool.enabled") == f"{path}:5"
    assert source_of(settings, "pool.default_target") == "environment ASSAYD_POOL__DEFAULT_TARGET"
    assert source_of(settings, "pool.ceiling_idle_memory_mb") == "default"


def test_unknown_key_in_the_file_is_refused_with_line_and_hint(config: Config) -> None:
    path = config("[pool]\n\ndefault_taget = 1\n[engin]\n")
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert caught.value.code == "settings.invalid"
    assert str(caught.value).splitlines() == [
        f"{path}:3: [pool] default_taget: unknown key (did you mean default_target?)",
        f"{path}:4: engin: unknown key (did you mean engine?)",
    ]


def test_tables_by_name_come_from_where_the_first_of_them_is_set(config: Config) -> None:
    listed = 'url = "https://ci.example/"\nsecret_variable = "CI"\n'
    path = config(f"[webhooks.receivers.ci]\n{listed}\n[webhooks.receivers.other]\n{listed}")
    settings = load_settings()
    assert source_of(settings, "webhooks.receivers") == f"{path}:2"
    assert source_of(settings, "repair.providers") == "default"


@pytest.mark.parametrize("value", ["true", "0", "-1", "1.5", "nan"])
def test_count_that_is_none_is_refused_with_its_line(config: Config, value: str) -> None:
    config(f"concurrency = {value}\n")
    with pytest.raises(ConfigError, match=r"assayd\.toml:1: concurrency: "):
        load_settings()


@pytest.mark.parametrize("value", ["nan", "inf", "0.0", "true"])
def test_duration_that_is_not_positive_and_finite_is_refused(config: Config, value: str) -> None:
    config(f"[engine]\ntimeout_s = {value}\n")
    with pytest.raises(ConfigError, match=r"assayd\.toml:2: \[engine\] timeout_s: "):
        load_settings()


PROVIDER = '[repair.providers.local]\ntype = "openai"\nmodel = "m"\nbase_url = "{}"\n'


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/v1",
        "http://8.8.8.8/v1",
        "http://[2606:4700::1111]:8000/v1",
        "http://127.0.0.1@api.example.com/",
        "http://api.localhost.example.com",
    ],
)
def test_provider_without_encryption_on_a_public_host_is_refused(config: Config, url: str) -> None:
    """Otherwise, key and prompts would be sent unencrypted."""
    config(PROVIDER.format(url))
    with pytest.raises(ConfigError, match="unencrypted to a public host"):
        load_settings()


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000",
        "http://10.1.2.3/v1",
        "http://localhost:11434/v1",
        "http://ollama:11434/v1",
        "http://llm.internal/v1",
    ],
)
def test_provider_on_a_private_host_needs_no_encryption(config: Config, url: str) -> None:
    config(PROVIDER.format(url))
    assert load_settings().repair.providers["local"].base_url == url


def test_bad_value_in_the_environment_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAYD_ENGINE__THREADS", "many")
    with pytest.raises(ConfigError, match=r"^ASSAYD_ENGINE__THREADS: "):
        load_settings()


@pytest.mark.parametrize("name", ["ASSAYD_POOL_DEFAULT_TARGET", "ASSAYD_POOL__DEFALT_TARGET"])
def test_unknown_variable_is_refused_with_the_nearest(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match="did you mean ASSAYD_POOL__DEFAULT_TARGET"):
        load_settings()


def test_list_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAYD_ACCESS__UIDS", "[1000, 1001]")
    assert load_settings().access.uids == (1000, 1001)
    monkeypatch.setenv("ASSAYD_ACCESS__UIDS", "1000,1001")
    with pytest.raises(ConfigError, match="ASSAYD_ACCESS__UIDS: must be JSON"):
        load_settings()


def test_named_file_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAYD_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings()


@pytest.mark.parametrize("text", ["socket_mode = 0o600", 'socket_mode = "0600"'])
def test_socket_mode_is_octal_and_shown_so(config: Config, text: str) -> None:
    config(text)
    settings = load_settings()
    assert settings.socket_mode == 0o600
    assert {row.name: row.value for row in list_effective_settings(settings)}["socket_mode"] == "0600"


def test_socket_mode_that_is_not_octal_is_refused(config: Config) -> None:
    config('socket_mode = "rw"')
    with pytest.raises(ConfigError, match="isn't an octal mode"):
        load_settings()


def test_root_has_the_system_paths_and_a_user_the_xdg_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert load_settings().socket == Path("/run/assayd/assayd.sock")
    assert load_settings().state_dir == Path("/var/lib/assayd")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/state")
    assert load_settings().socket == Path("/run/user/1000/assayd/assayd.sock")
    assert load_settings().state_dir == Path("/home/u/state/assayd")


def test_bounds_are_the_contracts_unless_set(config: Config) -> None:
    assert Settings().bounds.bounds() == DEFAULT_BOUNDS
    assert Settings().widest_bounds.bounds().max_processes == LimitRange(least=1, most=64)
    config("[bounds]\ntimeout_s = [1, 300]\n")
    assert load_settings().bounds.bounds().timeout_s == LimitRange(least=1, most=300)


def test_bounds_that_are_upside_down_are_refused(config: Config) -> None:
    config("[bounds]\ntimeout_s = [60, 1]\n")
    with pytest.raises(
        ConfigError, match=r"assayd\.toml:1: bounds: timeout_s: the minimum exceeds the maximum"
    ):
        load_settings()


def test_every_setting_has_a_description() -> None:
    assert [row.name for row in list_effective_settings(Settings()) if not row.description] == []


@pytest.mark.parametrize("name", ["socket_group", "access.operators_group"])
def test_group_that_is_not_there_is_refused(config: Config, name: str) -> None:
    config(f"{name} = 'no-such-group'\n")
    with pytest.raises(ConfigError, match="group 'no-such-group' doesn't exist"):
        load_settings()


def test_cap_that_could_not_take_effect_is_refused(config: Config) -> None:
    config("[caps]\nsource_bytes = 2000000\n")
    with pytest.raises(ConfigError, match=r"assayd\.toml:2: \[caps\] source_bytes: "):
        load_settings()


def test_every_setting_is_read_by_somebody() -> None:
    package = Path(assayd.__file__).parent
    readers = "".join(
        path.read_text() for path in package.parent.rglob("*.py") if path.parent != package / "settings"
    )
    unread = [
        row.name
        for row in list_effective_settings(Settings())
        if f".{row.name.split('.')[-1]}" not in readers
    ]
    assert [name for name in unread if not name.startswith(("bounds.", "widest_bounds."))] == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("127.8.0.1:0", ("127.8.0.1", 0)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_loopback_address_for_metrics_is_read(config: Config, text: str, address: tuple[str, int]) -> None:
    config(f'[metrics]\nlisten = "{text}"\n')
    assert load_settings().metrics.address == address


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:9464", "192.168.0.1:9464", "[::]:9464", "localhost:9464", "127.0.0.1", "127.0.0.1:99999", ""],
)
def test_metrics_are_listened_for_on_loopback_only(config: Config, text: str) -> None:
    config(f'[metrics]\nlisten = "{text}"\n')
    with pytest.raises(ConfigError, match=r"assayd\.toml:2: \[metrics\] listen: .*isn't a loopback address"):
        load_settings()


def test_state_directory_that_the_service_manager_made_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert load_settings().state_dir == tmp_path


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CONCURRENCY", "abc", "ASSAYD_CONCURRENCY: must be an integer"),
        ("CONCURRENCY", "100000", "ASSAYD_CONCURRENCY: must be at most 1000"),
        ("CONCURRENCY", "0", "ASSAYD_CONCURRENCY: must be at least 1"),
        ("POOL__ENABLED", "maybe", "ASSAYD_POOL__ENABLED: must be true or false"),
        ("LIMITS__BODY_S", "-1", "ASSAYD_LIMITS__BODY_S: must be greater than 0"),
        ("LOG__FORMAT", "xml", "ASSAYD_LOG__FORMAT: must be 'json' or 'console'"),
        ("ACCESS__UIDS", "1000", "ASSAYD_ACCESS__UIDS: must be a list"),
        (
            "POLICY_FOLDERS",
            "/a",
            'ASSAYD_POLICY_FOLDERS: must be JSON, e.g. ["a", "b"] for a list',
        ),
    ],
)
def test_wrong_variable_is_told_without_words_of_a_library(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"ASSAYD_{name}", value)
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert refused.value.message == message
