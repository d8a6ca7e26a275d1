"""`assay mcp`: the daemon for coding agents, by the Model Context Protocol.

`tools` lists the tools, `acts` has their arguments and actions; `answers` shortens results and marks
untrusted text; `resources` and `prompts` can be read, too; `server` combines them, and `serving` offers them
over standard streams or HTTP. Everything reaches the daemon through the client library, with the rights of
the user who runs it.
"""
