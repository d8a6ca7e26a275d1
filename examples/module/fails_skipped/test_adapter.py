import pytest
from adapter import OpenMeteoAdapter


@pytest.mark.skip(reason="needs the real service")
def test_transform():
    assert OpenMeteoAdapter().transform({})
