import pytest

from assayd import __version__
from assayd.__main__ import main


@pytest.fixture(autouse=True)
def settings_file(tmp_path, monkeypatch):
    file = tmp_path / "assayd.toml"
    file.write_text("concurrency = 3\n")
    monkeypatch.setenv("ASSAYD_CONFIG", str(file))
    return file


def test_the_version_is_printed(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"assayd {__version__}\n")


def test_the_configuration_shows_where_each_value_came_from(settings_file, capsys, monkeypatch) -> None:
    monkeypatch.setenv("ASSAYD_LOG__LEVEL", "warning")
    assert main(["--print-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"concurrency = 3\t# {settings_file}:1" in lines
    assert "log.level = warning\t# environment ASSAYD_LOG__LEVEL" in lines


def test_a_good_configuration_is_fine(capsys) -> None:
    assert main(["--check-config"]) == 0
    assert capsys.readouterr().out == "settings and policies are valid\n"


def test_a_bad_configuration_is_refused_with_its_place(settings_file, capsys) -> None:
    settings_file.write_text("\nconcurrency = 0\n")
    assert main(["--check-config"]) == 2
    assert f"{settings_file}:2" in capsys.readouterr().err


def test_a_bad_policy_folder_is_refused(settings_file, tmp_path, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bad.toml").write_text("[resources]\ntimeout_s = 'soon'\n")
    settings_file.write_text(f'policy_folders = ["{tmp_path / "mine"}"]\n')
    assert main(["--check-config"]) == 2
    assert "bad.toml:2" in capsys.readouterr().err


def test_two_questions_at_once_are_bad_usage(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--print-config", "--check-config"])
    assert caught.value.code == 2


def test_a_validator_that_is_not_installed_is_refused(settings_file, capsys) -> None:
    settings_file.write_text('validators = ["nobody"]\n')
    assert main(["--check-config"]) == 2
    assert "no installed distribution offers the validator 'nobody'" in capsys.readouterr().err
