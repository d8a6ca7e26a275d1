"""The conversation with the runner inside a container."""
