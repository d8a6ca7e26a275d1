"""The routes of submitted INI files."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter
from starlette.responses import Response

from assayd.api import answers
from assayd.api.call import CallDep, json_response
from assayd_ini.records import IniRecords

router = APIRouter(prefix="/v1/ini", tags=["ini"], responses=answers.ERRORS)


@router.get("/files")
async def list_files(call: CallDep) -> Response:
    """List submitted INI files, newest first."""
    records = cast("IniRecords", call.service.records["ini"])
    return json_response({"files": await records.list(call.visible_uid)})
