"""Implements the language server, which validates files and publishes their findings.

A file is validated when it is opened or saved. While the user types, only the static stages run, and the
last run's findings are kept on unchanged lines.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from assayd import __version__
from assayd.errors import AssaydError
from assayd_client import AsyncClient, ClientError, DaemonUnreachable, Document, Target, requests
from assayd_client.cli.check import UnsavedTextReader, build_submission, find_project, submits_folder
from assayd_client.cli.report import SubmissionOrigin
from assayd_client.cli.terminal import plain
from assayd_lsp.diagnostics import (
    LineMapping,
    LocatedDiagnostic,
    build_diagnostics,
    build_warning,
    describe_edits,
    filter_unchanged_diagnostics,
)

WAIT_S = 600.0
PAUSE_S = 0.3
"""Seconds between the last keystroke and the check of the text."""
CHECK_UNAVAILABLE_MESSAGES = {
    "policy.elsewhere": "A gateway can't check files while you type. It validates them when you save.",
    "not_found": "This daemon can't check files while you type. It validates them when you save.",
}
"""Messages to the user, by the error code with which a gateway or older daemon rejects a static check."""
RECONNECT_DELAY_S = 3.0
"""Seconds between tries while the daemon doesn't respond."""
PROGRESS_DELAY_S = 1.0
"""Seconds after which a validation shows its progress."""

NONE: Mapping[str, int | None] = MappingProxyType({})


def build_server(daemon: Target, pages: Path) -> Any:
    """Return the language server, which writes the pages of rules into the folder `pages`."""
    server = LanguageServer("assayd", __version__)
    editor = EditorSession(server, AsyncClient(daemon), pages)

    # Plain functions: pygls sets attributes on its handlers, which methods don't allow.
    async def validate(params: Any) -> None:
        await editor.validate(params.text_document.uri)

    async def check(params: Any) -> None:
        await editor.check(params.text_document.uri)

    def forget(params: Any) -> None:
        editor.forget(params.text_document.uri)

    def fixes(params: Any) -> list[Any]:
        return editor.fixes(params.text_document.uri, params.range)

    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(validate)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(validate)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(check)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(forget)
    kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(fixes)
    return server


class EditorSession:
    """The session of an editor: its open files and their published findings."""

    def __init__(self, server: Any, client: AsyncClient, pages: Path) -> None:
        self._server = server
        self._client = client
        self._found: dict[str, list[LocatedDiagnostic]] = {}
        """The published findings, by the URI of a file."""
        self._shown: defaultdict[Path, set[str]] = defaultdict(set)
        """The URIs of the files with published findings, by validated subject."""
        self._turns: defaultdict[Path, int] = defaultdict(int)
        """The number of validations by subject, from which an outdated validation is recognized."""
        self._running: dict[Path, str] = {}
        """The id of the newest attempt by subject; older attempts are cancelled."""
        self._asked: defaultdict[str, int] = defaultdict(int)
        """The number of openings, saves and closings of a file; outdated validations aren't retried."""
        self._typed: defaultdict[str, int] = defaultdict(int)
        """The number of edits, openings, saves and closings of a file; outdated texts aren't checked."""
        self._checks = True
        """Whether the daemon supports running only the static stages."""
        self._pages = pages
        self._addresses: dict[str, Mapping[str, str]] = {}
        """The addresses of the rules' pages, by kind."""
        self._away = False
        """Whether the user has been informed that the daemon doesn't respond."""

    def forget(self, uri: str) -> None:
        """Remove a closed file's findings from the editor, and discard those of validations still running."""
        self._asked[uri] += 1
        self._typed[uri] += 1
        self._publish(uri, [])

    def fixes(self, uri: str, wanted: Any) -> list[Any]:
        """Return the certain edits for findings in a range whose text hasn't changed, or an empty list."""
        document = self._server.workspace.text_documents.get(uri)
        found = [each for each in self._found.get(uri, ()) if each.edits]
        if document is None or not found:
            return []
        now = str(document.source)
        moved = LineMapping(found[0].text, now)  # all findings of a file come from one validation
        actions = []
        for each in found:
            edits = [moved.edit(edit) for edit in each.edits]
            if None not in edits and _overlaps_range(each.diagnostic.range, wanted, moved):
                change = self._build_workspace_edit(uri, document.version, edits)
                actions.append(_build_quick_fix(describe_edits(edits, now), each.diagnostic, change))
        return actions

    def _build_workspace_edit(self, uri: str, version: int | None, edits: list[Any]) -> Any:
        """Return edits with the document version that they apply to, if the editor supports versions."""
        workspace = self._server.client_capabilities.workspace
        supported = workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes
        if not supported:
            return types.WorkspaceEdit(changes={uri: edits})
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        change = types.TextDocumentEdit(text_document=document, edits=edits)
        return types.WorkspaceEdit(document_changes=[change])

    async def validate(self, uri: str) -> None:
        """Validate the submission that contains a file, and publish its findings.

        Validation is retried while the daemon is unreachable.
        """
        self._asked[uri] += 1
        self._typed[uri] += 1
        asked = self._asked[uri]
        while asked == self._asked[uri]:
            try:
                await self._run_validation(uri, asked)
            except DaemonUnreachable as error:
                self._warn_unreachable(error)
                await asyncio.sleep(RECONNECT_DELAY_S)
            else:
                self._away = False
                return

    def _warn_unreachable(self, error: DaemonUnreachable) -> None:
        if not self._away:
            said = types.ShowMessageParams(type=types.MessageType.Warning, message=plain(error.message))
            self._server.window_show_message(said)
        self._away = True

    async def _run_validation(self, uri: str, asked: int) -> None:
        texts = OpenDocuments(self._server.workspace.text_documents)
        path = subject = await asyncio.to_thread(_uri_to_path, uri)
        try:
            work = await asyncio.to_thread(_find_subject, path, texts.read)
            if work is None:
                return
            subject = work.subject
            attempt = await self._run_attempt(subject, work.submission)
            if attempt is None:
                return
            pages = await self._get_rule_pages(attempt["kind"])
        except AssaydError as error:
            if subject != path or asked == self._asked[uri]:  # else the file was closed
                self._publish_findings(subject, [build_warning(path, error.message)])
            if isinstance(error, DaemonUnreachable):
                raise
            return
        if subject == path and asked != self._asked[uri]:
            return
        found = build_diagnostics(attempt["report"] or {}, work.origin, path, pages)
        if attempt["error"] is not None:
            found.append(build_warning(path, f"{attempt['error']['code']}: {attempt['error']['message']}"))
        self._publish_findings(subject, found, texts.versions)
        if texts.have_changed():
            await self.check(uri)

    async def check(self, uri: str) -> None:
        """Run the static stages after a short pause in typing, and publish the resulting findings.

        Do nothing if the text changes meanwhile, or if the daemon can't check without running.
        """
        self._typed[uri] += 1
        typed = self._typed[uri]
        await asyncio.sleep(PAUSE_S)
        if typed != self._typed[uri] or not self._checks:
            return
        texts = OpenDocuments(self._server.workspace.text_documents)
        path = await asyncio.to_thread(_uri_to_path, uri)
        try:
            work = await asyncio.to_thread(_find_subject, path, texts.read)
            if work is None:
                return
            checked = await self._send_request(requests.check(work.submission))
            pages = await self._get_rule_pages(checked["kind"])
        except AssaydError as error:  # The previous findings stay; the next save shows the problem.
            if error.code in CHECK_UNAVAILABLE_MESSAGES and self._checks:
                self._checks = False
                said = types.ShowMessageParams(
                    type=types.MessageType.Info, message=CHECK_UNAVAILABLE_MESSAGES[error.code]
                )
                self._server.window_show_message(said)
            return
        if typed == self._typed[uri]:
            before = [each for shown in self._shown[work.subject] for each in self._found[shown]]
            found = build_diagnostics(checked, work.origin, path, pages)
            self._publish_findings(
                work.subject, [*found, *filter_unchanged_diagnostics(before, work.origin)], texts.versions
            )

    async def _get_rule_pages(self, kind: str) -> Mapping[str, str]:
        if kind not in self._addresses:
            rules = await self._send_request(requests.kind(kind))
            self._addresses[kind] = await asyncio.to_thread(write_rule_pages, rules, self._pages)
        return self._addresses[kind]

    @asynccontextmanager
    async def _show_progress(self, name: str) -> AsyncIterator[None]:
        """Show a progress indicator while the body runs, if the editor supports progress."""
        window = self._server.client_capabilities.window
        if not (window and window.work_done_progress):
            yield
            return
        token, progress = str(uuid4()), self._server.work_done_progress
        await progress.create_async(token)
        progress.begin(token, types.WorkDoneProgressBegin(title=f"assayd: validating {name}"))
        try:
            yield
        finally:
            progress.end(token, types.WorkDoneProgressEnd())

    async def _run_attempt(self, subject: Path, submission: Document) -> Document | None:
        """Run an attempt, and return it when finished, or None if a newer text has replaced the text."""
        self._turns[subject] += 1
        turn = self._turns[subject]
        attempt = await self._send_request(requests.submit(submission))
        newest = turn == self._turns[subject]
        older = self._running.pop(subject, None) if newest else attempt["id"]
        if newest:
            self._running[subject] = attempt["id"]
        if older is not None:
            with suppress(ClientError):  # it finished meanwhile
                await self._send_request(requests.cancel(older))
        attempt = await self._send_request(requests.attempt(attempt["id"], wait_s=PROGRESS_DELAY_S))
        if attempt["state"] != "finished":
            async with self._show_progress(subject.name):
                while attempt["state"] != "finished":
                    attempt = await self._send_request(requests.attempt(attempt["id"], wait_s=WAIT_S))
        return attempt if turn == self._turns[subject] else None

    async def _send_request(self, request: Any) -> Document:
        document: Document = json.loads(await self._client.send_for_content(request))
        return document

    def _publish_findings(
        self, subject: Path, found: list[LocatedDiagnostic], versions: Mapping[str, int | None] = NONE
    ) -> None:
        """Publish a submission's findings by file, and clear the findings of its other files."""
        by_file: defaultdict[str, list[LocatedDiagnostic]] = defaultdict(list)
        for each in found:
            by_file[uris.from_fs_path(str(each.path)) or ""].append(each)
        if subject.is_file():
            by_file.setdefault(uris.from_fs_path(str(subject)) or "", [])
        for uri in self._shown[subject] | by_file.keys():
            self._publish(uri, by_file.get(uri, []), versions.get(uri))
        self._shown[subject] = set(by_file)

    def _publish(self, uri: str, found: list[LocatedDiagnostic], version: int | None = None) -> None:
        self._found[uri] = found
        diagnostics = [each.diagnostic for each in found]
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=version)
        )


class OpenDocuments:
    """The texts that are open in the editor, with the version of each text when it was read."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self.versions: dict[str, int | None] = {}

    def read(self, path: Path) -> bytes | None:
        """Return the text of a file in the editor, or None if it isn't open."""
        uri = uris.from_fs_path(str(path)) or ""
        document = self._documents.get(uri)
        if document is None:
            return None
        self.versions[uri] = document.version
        return str(document.source).encode()

    def have_changed(self) -> bool:
        """Return whether any of the texts has changed since it was read."""
        opened = {uri: self._documents.get(uri) for uri in self.versions}
        return any(one is not None and one.version != self.versions[uri] for uri, one in opened.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSubject:
    """The object that is validated for a file, either the file or its folder, with unsaved texts."""

    subject: Path
    submission: Document
    origin: SubmissionOrigin


def _uri_to_path(uri: str) -> Path:
    return Path(uris.to_fs_path(uri) or "").resolve()


def _find_subject(path: Path, read: UnsavedTextReader) -> ValidationSubject | None:
    """Return the file or folder to validate for a file, or None if no project declares the file.

    Raises: RequestError, if the project or one of its files can't be used.
    """
    project = find_project(path.parent)
    table = None if project is None else project.find_file_table(path)
    if table is None:
        return None
    submission, origin = build_submission(path, table, read)
    return ValidationSubject(
        subject=path.parent if submits_folder(table) else path, submission=submission, origin=origin
    )


def _overlaps_range(found: Any, wanted: Any, moved: LineMapping) -> bool:
    first, last = moved.line(found.start.line), moved.line(found.end.line)
    return bool(first <= wanted.end.line and wanted.start.line <= last)


def _build_quick_fix(said: str, diagnostic: Any, change: Any) -> Any:
    return types.CodeAction(
        title=said,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        is_preferred=True,
        edit=change,
    )


def write_rule_pages(kind: Document, folder: Path) -> Mapping[str, str]:
    """Write the pages of a kind's rules into a folder, and return each page's address by rule."""
    below = folder / quote(kind["kind"], safe="")
    below.mkdir(exist_ok=True)
    addresses = {}
    for rule in kind["rules"]:
        page = below / f"{quote(rule['id'], safe='')}.md"
        page.write_text(plain(_render_rule_page(rule, kind["kind"])), encoding="utf-8")
        addresses[rule["id"]] = page.as_uri()
    return addresses


def _render_rule_page(rule: Document, kind: str) -> str:
    parts = [f"# {rule['title']}", f"`{rule['id']}`: {rule['severity']} of the kind `{kind}`", rule["help"]]
    if rule["profile_key"]:
        parts.append(f"The profile's key `{rule['profile_key']}` states this rule.")
    return "\n\n".join(filter(None, parts)) + "\n"
