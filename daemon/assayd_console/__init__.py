"""The console: pages in a browser, for one person, on a loopback address.

It asks the daemon over its socket as the user who started it, through the client library: what it shows,
`assay` and the API can show too. `serving` starts it, `guard` decides who is answered, `pages` says what.
"""
