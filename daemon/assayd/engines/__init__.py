"""Container engines that implement `ports.engine`: one independent package for each engine."""
