"""Implements the MCP server with its tools, resources and prompts as methods of the protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, TypeAlias, TypeVar

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)
from pydantic import BaseModel, ValidationError

from assayd import __version__
from assayd.documents.base import message_of
from assayd.errors import AssaydError, RequestError
from assayd_client.cli.mcp import resources
from assayd_client.cli.mcp.acts import ToolCall
from assayd_client.cli.mcp.answers import DATA_NOTE
from assayd_client.cli.mcp.daemon import DaemonConnection
from assayd_client.cli.mcp.tools import BY_NAME, TOOLS

T = TypeVar("T")
Context: TypeAlias = "ServerRequestContext[Any, Any]"
INSTRUCTIONS = (
    "assayd validates untrusted code in throwaway containers. Before you deliver code, call `validate` "
    "with it; fix the findings and call `validate` again until the verdict is "
    "`validated`. `kinds` describes payloads, "
    "`policy` describes what the code is allowed to do. " + DATA_NOTE
)


class AgentServer:
    """A server with the methods of the protocol, each of which sends a request to the daemon."""

    def __init__(self, daemon: DaemonConnection) -> None:
        self._daemon = daemon

    def build_server(self) -> Server[Any]:
        """Return the server for a transport."""
        return Server(
            "assayd",
            version=__version__,
            title="assayd",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def _list_tools(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool.to_tool() for tool in TOOLS])

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS, f"tool {params.name[:64]!r} doesn't exist; available: {', '.join(BY_NAME)}"
            )

        async def tell(number: float, said: str) -> None:
            await context.session.report_progress(number, None, said)

        try:
            arguments = read_arguments(tool.takes, params.arguments or {})
            answer = await tool.act(ToolCall(daemon=self._daemon, tell=tell), arguments)
        except AssaydError as error:
            return _error_result(error)
        text = answer.model_dump_json()
        return CallToolResult(content=[TextContent(text=text)], structured_content=json.loads(text))

    async def _list_resources(self, _: Context, __: PaginatedRequestParams | None) -> ListResourcesResult:
        async def found() -> ListResourcesResult:
            return ListResourcesResult(
                resources=[each async for each in resources.iter_resources(self._daemon)]
            )

        return await _translate_error(found())

    async def _list_templates(
        self, _: Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(resources.TEMPLATES))

    async def _read_resource(self, _: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return ReadResourceResult(
            contents=[await _translate_error(resources.read_resource(self._daemon, str(params.uri)))]
        )

    async def _list_prompts(self, _: Context, __: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=[resources.FIX])

    async def _get_prompt(self, _: Context, params: GetPromptRequestParams) -> GetPromptResult:
        attempt_id = (params.arguments or {}).get("attempt_id")
        if params.name != resources.FIX.name or attempt_id is None:
            raise MCPError(INVALID_PARAMS, "the only prompt is `fix`, with the argument attempt_id")
        return await _translate_error(resources.build_fix_prompt(self._daemon, attempt_id))


def read_arguments(model: type[BaseModel], arguments: dict[str, Any]) -> BaseModel:
    """Return the arguments of a call.

    Raises: RequestError, with the name of the first invalid argument.
    """
    try:
        json.dumps(arguments, allow_nan=False)
        return model.model_validate(arguments)
    except ValidationError as error:
        first, *others = error.errors(include_url=False, include_context=False, include_input=False)
        field = ".".join(map(str, first["loc"])) or "the arguments"
        more = f" (and {len(others)} more)" if others else ""
        raise RequestError("invalid", f"{field}: {message_of(first)}{more}", field=field) from error
    except ValueError as error:
        raise RequestError("malformed", "NaN and infinity aren't valid JSON; omit them") from error


def _error_result(error: AssaydError) -> CallToolResult:
    """Return a result with the reason why a call failed, so that the agent can correct the call."""
    again = "; trying again later may help" if error.retryable else ""
    return CallToolResult(content=[TextContent(text=f"{error.code}: {error.message}{again}")], is_error=True)


async def _translate_error(asked: Awaitable[T]) -> T:
    """Return the result, or raise a known error as a protocol error."""
    try:
        return await asked
    except AssaydError as error:
        raise MCPError(INTERNAL_ERROR, f"{error.code}: {error.message}") from error
