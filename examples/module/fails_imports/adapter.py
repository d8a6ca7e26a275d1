"""Fetches by starting another program, in three ways; none is allowed."""

import os as system
import subprocess

from assayd_adapter import register_adapter


@register_adapter
class OpenMeteoAdapter:
    def fetch_raw(self, latitude, longitude):
        run = getattr(system, "popen")
        return run(f"curl https://api.open-meteo.com/v1/forecast?latitude={latitude}&longitude={longitude}").read()

    def transform(self, raw):
        return eval(raw)

    def get_schema(self):
        return {"type": "object"}
