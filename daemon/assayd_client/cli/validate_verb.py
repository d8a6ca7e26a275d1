"""`assay validate` as data, the longest of the verbs, and the parameters that it shares with others."""

from __future__ import annotations

from assayd_client.cli.verb import CommandVerb, Parameter

FIELDS = Parameter(
    name="fields",
    option="--fields",
    metavar="A,B.C",
    help="Of the JSON, these fields alone, e.g. verdict,report.findings.",
)
ID = Parameter(
    name="attempt_id",
    metavar="ID",
    required=True,
    help="The attempt: its id, the beginning of it, or `last`.",
)
JSON = Parameter(name="as_json", option="--json", default=False, help="Print JSON.")

VALIDATE = CommandVerb(
    name="validate",
    help="Validate files and show the report.",
    run="commands:validate",
    parameters=(
        Parameter(name="kind", metavar="KIND", required=True, help="What it is, e.g. extractor."),
        Parameter(
            name="files",
            metavar="[FILE]…",
            type="path",
            many=True,
            help="Files or folders; - is standard input.",
        ),
        Parameter(
            name="input_file",
            option="--input",
            metavar="F.json",
            type="path",
            help="Inputs, as a JSON object.",
        ),
        Parameter(
            name="sample_paths",
            option="--sample-path",
            metavar="P",
            many=True,
            help="A path to try the code on.",
        ),
        Parameter(name="policy", option="--policy", metavar="NAME", help="Profile; else the kind's own."),
        Parameter(
            name="settings",
            option="--set",
            metavar="A.B=V",
            many=True,
            help="Tighten a limit, e.g. resources.timeout_s=5; commas make a list.",
        ),
        Parameter(name="labels", option="--label", metavar="K=V", many=True, help="Mark the attempt."),
        Parameter(
            name="options", option="--option", metavar="K=V", many=True, help="An option of the kind itself."
        ),
        Parameter(
            name="sample_rows",
            option="--sample-rows",
            default=False,
            help="Show who repairs it three rows of each table of its database file.",
        ),
        Parameter(
            name="cases",
            option="--cases",
            metavar="F.json",
            type="path",
            help="What it has to give for what, as a JSON array.",
        ),
        Parameter(
            name="intent", option="--intent", metavar="TEXT|@FILE", help="What was asked for, in words."
        ),
        Parameter(
            name="repair",
            option="--repair",
            metavar="PROVIDER",
            help="Have it repaired if it fails, e.g. by `rules`.",
        ),
        Parameter(
            name="out",
            option="--out",
            metavar="FILE",
            type="path",
            help="Write the validated code to this file, or to this folder if it has several files.",
        ),
        Parameter(
            name="in_place",
            option="--in-place",
            default=False,
            help="With --repair: write the repaired code to the files that were named.",
        ),
        Parameter(
            name="webhook", option="--webhook", metavar="URL", help="Have this URL told of the verdict."
        ),
        JSON,
        FIELDS,
        Parameter(
            name="retry_context",
            option="--retry-context",
            default=False,
            help="Print only what a model should be told that tries again; nothing when it is validated.",
        ),
        Parameter(
            name="sarif",
            option="--sarif",
            metavar="FILE",
            type="path",
            help="Write the findings as SARIF, certain edits as fixes; - is standard output.",
        ),
        Parameter(
            name="junit",
            option="--junit",
            metavar="FILE",
            type="path",
            help="Write a JUnit report; - is standard output.",
        ),
        Parameter(
            name="watch",
            option="--watch",
            default=False,
            help="Validate again at every save of the files, until an interrupt.",
        ),
        Parameter(
            name="form", option="--form", metavar="NAME", help="Print the report in a form that the kind has."
        ),
        Parameter(name="as_yaml", option="--yaml", default=False, help="Short for --form yaml."),
    ),
)
