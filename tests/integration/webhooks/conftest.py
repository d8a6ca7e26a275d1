"""Daemons that tests stop."""

from support.daemons.daemon_fixtures import make_daemon, pytest_runtest_makereport  # noqa: F401 - pytest finds them
