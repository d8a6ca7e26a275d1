"""The Docker engine. Only this package imports the `docker` SDK.

`document` describes and compares containers, `images` manages images, `calls` runs the blocking SDK in
threads and translates its exceptions, and `engine` checks the engine and combines these parts.
"""

from assayd.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]
