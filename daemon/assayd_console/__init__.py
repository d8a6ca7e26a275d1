"""The web console, which serves pages to one user on a loopback address.

The console sends its requests to the daemon's socket, through the client library, as the user who started
the console. Everything that the console shows is also available from `assay` and the API. `serving` starts
the console, `guard` controls access, and `pages` contains the pages.
"""
