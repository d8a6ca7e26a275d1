"""The command that builds images where the daemon looks for them."""

from assayd.wiring.execution import format_build_command


def test_variables_of_the_daemon_are_part_of_the_command() -> None:
    variables = {"DOCKER_HOST": "unix:///run/a b.sock", "ASSAYD_ENGINE__KIND": "docker"}
    command = "ASSAYD_ENGINE__KIND=docker DOCKER_HOST='unix:///run/a b.sock' assay images build"
    assert format_build_command(variables) == command


def test_command_of_a_daemon_with_a_file_of_settings_is_plain() -> None:
    assert format_build_command({}) == "assay images build"
