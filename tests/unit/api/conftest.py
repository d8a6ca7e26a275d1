from support.daemons.api_fixtures import app, connect, service  # noqa: F401 - pytest finds them
