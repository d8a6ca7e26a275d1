from support.stores.stored_attempts import jobs, make

__all__ = ["jobs", "make"]
from support.daemons.api_fixtures import app, connect, service  # noqa: F401 - pytest finds them
