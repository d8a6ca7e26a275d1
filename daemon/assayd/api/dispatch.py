"""Hands a request to its route by a shorter way than the framework's, which takes longer than most routes.

Routes, parameters and reference are declared with the framework, and read here from its declarations. What
needs more than that (a route with other dependencies, a path or a method without a route) goes its way.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from fastapi import Request
from fastapi.dependencies.utils import request_params_to_args
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from assayd.api.call import get_call


class DirectRoutes:
    """The routes of an application, found by method and beginning of the path; others are left to `app`."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[tuple[str, str], list[_Direct]] = {}
        for direct in filter(None, map(_read, routes)):
            begins = _beginning(direct.route.path)
            for method in sorted(direct.route.methods or ()):
                self._routes.setdefault((method, begins), []).append(direct)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the route that the request is for."""
        if scope["type"] == "http":
            path = scope["path"]
            for direct in self._routes.get((scope["method"], _beginning(path)), ()):
                found = direct.route.path_regex.match(path)
                if found is not None:
                    scope["route"], scope["path_params"] = direct.route, found.groupdict()
                    response = await direct.answer(Request(scope, receive, send))
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Direct:
    """A route that is a function of the request, the call and parameters, and returns a response."""

    route: APIRoute
    request: str | None
    call: str | None

    async def answer(self, request: Request) -> Response:
        """Call the function. Raises: RequestValidationError, and what the function raises."""
        known = self.route.dependant
        values: dict[str, Any] = {}
        if self.call is not None:
            values[self.call] = await get_call(request)
        if self.request is not None:
            values[self.request] = request
        errors: list[Any] = []
        for field in known.path_params:
            given = request.path_params[field.alias]
            values[field.name], wrong = field.validate(given, values, loc=("path", field.alias))
            errors += wrong
        for fields, received in (
            (known.query_params, request.query_params),
            (known.header_params, request.headers),
        ):
            if fields:
                read, wrong = request_params_to_args(fields, received)
                values |= read
                errors += wrong
        if errors:
            raise RequestValidationError(errors)
        return cast("Response", await self.route.endpoint(**values))


def _read(route: BaseRoute) -> _Direct | None:
    """Return how a route is answered directly; None for one that needs more of the framework."""
    if not isinstance(route, APIRoute) or not inspect.iscoroutinefunction(route.endpoint):
        return None
    known, signature = route.dependant, inspect.signature(route.endpoint, eval_str=True)
    call = next((each.name for each in known.dependencies), None)
    direct = _Direct(route=route, request=known.request_param_name, call=call)
    parameters = (*known.path_params, *known.query_params, *known.header_params)
    filled = {direct.request, direct.call, *(each.name for each in parameters)} - {None}
    returned = signature.return_annotation
    if (
        filled == signature.parameters.keys()
        and all(each.call is get_call for each in known.dependencies)
        and isinstance(returned, type)
        and issubclass(returned, Response)
    ):
        return direct
    return None


def _beginning(path: str) -> str:
    """Return the first two names of a path."""
    return "/".join(path.split("/", 3)[:3])
