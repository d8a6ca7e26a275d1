"""Container engines behind `ports.engine`; one file or package each, and none knows of another."""
