"""The Docker engine: the only place that imports the `docker` SDK.

`document` says what a container is and compares, `calls` crosses into blocking code and translates its
exceptions, `stream` reads what was attached, `host` judges the engine itself, `engine` puts them together.
"""

from assayd.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]
