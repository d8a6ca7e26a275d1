"""`assay validate` as data, the longest of the verbs, and the parameters that it shares with others."""

from __future__ import annotations

from assayd_client.cli.verb import CommandVerb, Parameter

FIELDS = Parameter(
    name="fields",
    option="--fields",
    metavar="A,B.C",
    help="Print only these JSON fields, e.g. verdict,report.findings.",
)
ID = Parameter(
    name="attempt_id",
    metavar="ID",
    required=True,
    help="Attempt: id, unique beginning of the id, or `last`.",
)
JSON = Parameter(name="as_json", option="--json", default=False, help="Print the result as JSON.")

VALIDATE = CommandVerb(
    name="validate",
    help="Validate files and show the report.",
    run="commands:validate",
    parameters=(
        Parameter(name="kind", metavar="KIND", required=True, help="Kind of the submission, e.g. extractor."),
        Parameter(
            name="files",
            metavar="[FILE]…",
            type="path",
            many=True,
            help="Files or folders to submit; - is standard input.",
        ),
        Parameter(
            name="input_file",
            option="--input",
            metavar="F.json",
            type="path",
            help="Read the inputs from this file, a JSON object.",
        ),
        Parameter(
            name="sample_paths",
            option="--sample-path",
            metavar="P",
            many=True,
            help="Try the code on this path (repeatable).",
        ),
        Parameter(
            name="policy",
            option="--policy",
            metavar="NAME",
            help="Use this profile. Default: the kind's profile.",
        ),
        Parameter(
            name="settings",
            option="--set",
            metavar="A.B=V",
            many=True,
            help="Tighten a limit, e.g. resources.timeout_s=5; commas make a list.",
        ),
        Parameter(
            name="labels", option="--label", metavar="K=V", many=True, help="Add this label to the attempt."
        ),
        Parameter(
            name="options",
            option="--option",
            metavar="K=V",
            many=True,
            help="Set an option of the kind (see `assay kinds KIND`).",
        ),
        Parameter(
            name="sample_rows",
            option="--sample-rows",
            default=False,
            help="Show repair providers three rows of each table of the database.",
        ),
        Parameter(
            name="cases",
            option="--cases",
            metavar="F.json",
            type="path",
            help="Read test cases (inputs and expected results) from this file, a JSON array.",
        ),
        Parameter(
            name="intent",
            option="--intent",
            metavar="TEXT|@FILE",
            help="State the purpose in words, for repairs.",
        ),
        Parameter(
            name="repair",
            option="--repair",
            metavar="PROVIDER",
            help="Repair it with this provider if it fails, e.g. `rules`.",
        ),
        Parameter(
            name="out",
            option="--out",
            metavar="FILE",
            type="path",
            help="Write the validated code to this file, or several files to this folder.",
        ),
        Parameter(
            name="in_place",
            option="--in-place",
            default=False,
            help="With --repair: write the repaired code to the submitted files.",
        ),
        Parameter(name="webhook", option="--webhook", metavar="URL", help="Send the verdict to this URL."),
        JSON,
        FIELDS,
        Parameter(
            name="retry_context",
            option="--retry-context",
            default=False,
            help="Print only the retry context, the text for a model's next try; nothing if validated.",
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
            help="Validate again whenever a file is saved, until Ctrl-C.",
        ),
        Parameter(
            name="form", option="--form", metavar="NAME", help="Print the report in another form of the kind."
        ),
        Parameter(
            name="as_yaml", option="--yaml", default=False, help="Print YAML: the same as --form yaml."
        ),
    ),
)
