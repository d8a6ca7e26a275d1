"""The Docker engine: the only place that imports the `docker` SDK.

`document` says what a container is and compares, `calls` crosses into blocking code and translates its
exceptions, `stream` reads attached streams, `host` judges the engine, `engine` joins these parts.
"""

from assayd.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]
