"""The Docker engine. Only this package imports the `docker` SDK.

`document` describes and compares containers, `calls` runs the blocking SDK in threads and translates its
exceptions, `host` checks the engine, and `engine` combines these parts.
"""

from assayd.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]
