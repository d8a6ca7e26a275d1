"""Implements `assay mcp`, which provides the daemon to coding agents by the Model Context Protocol.

The module `acts` defines the arguments and actions of the tools. `answers` shortens results and marks
untrusted text. `server` lists the tools, and the resources and prompts that agents can read. `serving` makes
them available over standard streams, and `http` over HTTP. All requests are sent to the daemon through the
client library, with the rights of the user who runs the server.
"""
