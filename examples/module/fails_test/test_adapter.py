from adapter import OpenMeteoAdapter

RAW = {"current_weather": {"time": "2026-03-01T12:00", "temperature": 9.4, "windspeed": 18.0, "weathercode": 3}}


def test_wind_is_told_in_kilometres_per_hour():
    assert OpenMeteoAdapter().transform(RAW)["current"]["wind_ms"] == 18.0


def test_answer_without_weather_is_empty():
    assert OpenMeteoAdapter().transform({}) == {}
