"""The web console: pages for one user, on a loopback address.

The console sends its requests to the daemon's socket, through the client library, as the user who started
it: everything that it shows is also available from `assay` and the API. `serving` starts the console,
`guard` controls access, and `pages` contains the pages.
"""
