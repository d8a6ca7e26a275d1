"""The daemon's side of the conversation with the runner inside a container."""
