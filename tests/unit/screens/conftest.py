from support.daemons.cli_fixtures import assay, finished, server, service, socket  # noqa: F401 - pytest finds them
