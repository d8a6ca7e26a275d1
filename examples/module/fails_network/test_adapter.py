from adapter import OpenMeteoAdapter


async def test_fetch_from_the_real_service():
    assert await OpenMeteoAdapter().fetch_raw(59.9, 10.7)
