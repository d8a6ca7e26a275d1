"""`assay mcp`: the daemon for coding agents, by the Model Context Protocol.

`tools` lists what an agent can do, `acts` what each takes and does; `answers` makes what comes back small and
marks what strangers wrote; `resources` and `prompts` are what else can be read; `server` puts them together,
and `serving` offers them over standard streams or HTTP. All of it is said to the daemon by the client
library, with the rights of the user who runs it: there is no other door.
"""
