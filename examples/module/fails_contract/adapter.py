"""Nothing registers the class, and one method has another name than the contract asks for."""

from assayd_adapter import register_adapter


class OpenMeteoAdapter:
    async def fetch_raw(self, latitude, longitude):
        return {"latitude": latitude, "longitude": longitude}

    def transform(self, raw):
        return {"place": (raw["latitude"], raw["longitude"])}

    def get_shema(self):
        return {"type": "object"}
