"""Requests reach their routes by the short way; what it does not know is the framework's."""

from __future__ import annotations

import asyncio
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Path, Query
from starlette.responses import Response

from assayd.api.dispatch import DirectRoutes
from assayd.api.errors import install_errors

router = APIRouter(prefix="/v1/things")


@router.get("/{id}")
async def get_thing(
    thing: Annotated[str, Path(alias="id", pattern="^[a-z]+$")],
    count: Annotated[int, Query(ge=0)] = 1,
) -> Response:
    """Return a thing."""
    return Response(thing * count)


@router.get("/{id}/owner")
async def get_owner(owner: Annotated[str, Depends(lambda: "alice")]) -> Response:
    """Return what another dependency says."""
    return Response(owner)


@router.get("/{id}/size")
async def get_size() -> dict[str, int]:
    """Return what the framework makes a response of."""
    return {"size": 3}


class Framework:
    """The framework's own way, which notes who came by it."""

    def __init__(self, app: FastAPI) -> None:
        self._way = app.router.app
        self.came: list[str] = []

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        """Note the path, and go on."""
        self.came.append(scope["path"])
        await self._way(scope, receive, send)


def asked(path: str, method: str = "GET") -> tuple[httpx.Response, list[str]]:
    app = FastAPI()
    app.router.routes.extend(router.routes)
    install_errors(app)
    framework = Framework(app)
    app.router.middleware_stack = DirectRoutes(framework, app.router.routes)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path)

    return asyncio.run(ask()), framework.came


def test_plain_route_is_answered_without_the_framework() -> None:
    answer, came = asked("/v1/things/abc?count=2")
    assert (answer.status_code, answer.text, came) == (200, "abcabc", [])


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/things/A", "id"), ("/v1/things/a?count=-1", "count")], ids=["path", "query"]
)
def test_parameter_that_is_none_is_refused_by_its_name(path: str, field: str) -> None:
    answer, came = asked(path)
    assert (answer.status_code, answer.json()["error"]["field"], came) == (422, field, [])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/things/a/owner", 200),
        ("GET", "/v1/things/a/size", 200),
        ("GET", "/v1/others", 404),
        ("PUT", "/v1/things/a", 405),
    ],
    ids=["dependency", "document", "path", "method"],
)
def test_other_routes_and_paths_without_one_are_the_frameworks(method: str, path: str, status: int) -> None:
    answer, came = asked(path, method)
    assert (answer.status_code, came) == (status, [path])
