"""The web console: pages for one user, on a loopback address.

It asks the daemon over its socket, through the client library, as the user who started it: everything that it
shows is also available from `assay` and the API. `serving` starts it, `guard` controls access, `pages` has
the pages.
"""
