"""Provides the report forms, the options and the description of each kind to the command line.

Kinds in this package are imported individually. Additional kinds are listed in the settings, which are read
only if a command names a kind that isn't in this package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.ports.command_line import FileOptions, FromFiles, KindCommandLine, build_code_payload, text_of
from assayd_client import Document, PlainClient
from assayd_client.cli.options import Json, open_client

if TYPE_CHECKING:
    from assayd.kind import Kind

KIND_COLUMNS = ("kind", "policy", "image", "stages")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """A finished attempt to be displayed in a format that its kind defines."""

    client: PlainClient
    attempt: Document
    as_json: bool = False

    def submission(self) -> Document:
        """Return the submission from the attempt's bundle.

        Raises: RequestError ``usage``, if the attempt has no bundle.
        """
        from assayd_client.cli.texts import fetch_stored_submission

        found = fetch_stored_submission(self.client, self.attempt)
        if found is None:
            raise RequestError("usage", f"{self.attempt['id']} has no bundle, so this form cannot be shown")
        return found


Form = Callable[[AttemptView], None]
"""A function that prints an attempt; values in `CommandLine.forms` refer to such functions."""


def find_kind(kind: str) -> Kind:
    """Return the validator of a kind.

    Raises: RequestError ``kind.unknown``; ConfigError, if the settings or a validator can't be used.
    """
    if kind in registry.list_own_kinds():
        return registry.load_own_validator(kind)
    return registry.find_validator(kind, (kind,) if kind in registry.list_external_kinds() else ())


def get_files_reader(kind: str) -> FromFiles:
    """Return the function of a kind that builds a payload from files.

    Raises: the same errors as `find_kind`.
    """
    reference = get_command_line(kind).from_files
    if reference:
        return cast("FromFiles", registry.import_reference(reference))
    return partial(build_code_payload, field=find_kind(kind).code_field)


def build_schema_files_reader(kind: Document) -> FromFiles:
    """Return a function that builds a payload from one text, for a kind that isn't installed here.

    Raises: RequestError ``usage``, if the kind's payload has several texts.
    """
    schema = kind["payload_schema"]
    texts = [
        name for name in schema.get("required", ()) if schema["properties"][name].get("type") == "string"
    ]
    if len(texts) != 1:
        message = f"{kind['kind']}: also install its package here; its files can't be read without it"
        raise RequestError("usage", message)

    def read(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        if len(files) != 1:
            raise RequestError("request.files", f"{kind['kind']} is one file, not {len(files)}")
        [(name, content)] = files.items()
        return {**(options.input or {}), texts[0]: text_of(name, content)}

    return read


def get_command_line(kind: str) -> KindCommandLine:
    """Return a kind's command-line definition, or the default one if the kind isn't installed here.

    A kind from an installed package needs no setting here, because the daemon decides whether to accept the
    kind.
    """
    return registry.load_command_line(kind, (kind,))


def get_form_printer(kind: str, name: str) -> Form:
    """Return the function that prints a kind's attempts in the form with this name.

    Raises: RequestError ``usage`` for an unknown form.
    """
    forms = get_command_line(kind).forms
    if name not in forms:
        has = f"it supports {', '.join(forms)}" if forms else "it supports no forms"
        message = f"--{name}: kind {kind} doesn't support this form; {has}; use --json for the whole report"
        raise RequestError("usage", message)
    return cast("Form", registry.import_reference(forms[name]))


def kinds(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Describe this kind. Default: list all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the kinds that the daemon accepts, or describe one kind's payload, options, stages and rules."""
    from assayd_client.cli.terminal import build_line, get_stdout, plain, print_json, print_table

    with open_client(context) as client:
        found = client.kinds() if kind is None else client.kind(kind)
    if as_json:
        print_json(found)
    elif kind is None:
        rows = [
            [one["kind"], one["default_policy"], one["image"], " ".join(one["stages"])]
            for one in found["kinds"]
        ]
        print_table(get_stdout(), KIND_COLUMNS, rows)
    else:
        get_stdout().lines(build_line(plain(said), hang=None) for said in describe_kind(found))


def describe_kind(kind: Document) -> list[str]:
    """Return the lines that describe a kind: policy, stages, payload, options, forms and rules."""
    lines = [
        f"{kind['kind']}: policy {kind['default_policy']}, image {kind['image']}",
        f"stages: {', '.join(kind['stages'])}",
        "",
        "payload:",
        *_describe_fields(kind["payload_schema"]),
    ]
    if kind["options"]:
        lines += ["", "options of assay validate:"]
        lines += [f"  --option {one['name']}=…  {one['help']}" for one in kind["options"]]
    if kind["forms"]:
        lines += ["", f"forms: {', '.join(kind['forms'])}"]
    lines += [
        "",
        "rules:",
        *(f"  {rule['id']} ({rule['severity']})  {rule['title']}" for rule in kind["rules"]),
    ]
    if kind["example"] is not None:
        lines += [
            "",
            "a valid payload:",
            json.dumps(kind["example"], indent=2, ensure_ascii=False),
        ]
    return lines


def _describe_fields(schema: Mapping[str, object]) -> list[str]:
    properties = cast("Mapping[str, Mapping[str, object]]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    return [
        f"  {name}: {_describe_type(field)}{'' if name in required else ' (optional)'}"
        for name, field in properties.items()
    ]


def _describe_type(field: Mapping[str, object]) -> str:
    """Describe the type of a field briefly, e.g. ``array of string``."""
    choices = cast("list[Mapping[str, object]]", field.get("anyOf", []))
    if choices:
        return " or ".join(_describe_type(choice) for choice in choices)
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    items = cast("Mapping[str, object]", field.get("items", {}))
    return f"array of {_describe_type(items)}" if items else str(field.get("type", "any"))
