"""Implements `assay mcp`, which provides the daemon to coding agents by the Model Context Protocol.

The module `tools` lists the tools, and `acts` defines their arguments and actions. `answers` shortens
results and marks untrusted text. `resources` defines the resources and prompts that agents can read.
`server` combines these parts, and `serving` makes them available over standard streams or HTTP. All
requests are sent to the daemon through the client library, with the rights of the user who runs the server.
"""
