"""Container engines behind `ports.engine`: one package each, independent of one another."""
