"""The rules for scripts. This module contains their texts, with examples of rejected lines and remedies."""

from __future__ import annotations

from assayd.model.finding import Rule, Severity, add_profile_keys

_ERROR_ENTRIES = (
    (
        "command.not_allowed",
        "The command isn't allowed",
        "Bad: frob x. Good: f() { echo x; }; f.",
    ),
    (
        "command.blocked",
        "The command is blocked",
        "Bad: rm data/x. Good: nothing; the directory is deleted after the run.",
    ),
    ("command.path", "The command is written as a path", "Bad: /bin/cat x. Good: cat x."),
    ("command.obscured", "The command's name is a pattern", "Bad: /bin/c?t x. Good: cat x."),
    ("command.dynamic", "The command is unknown before the run", "Bad: $tool x. Good: cat x."),
    ("command.coproc", "A coprocess", "Bad: coproc cat. Good: producer | consumer."),
    ("builtin.not_allowed", "The builtin isn't allowed", 'Bad: eval "$x". Good: the command itself.'),
    (
        "trap.dynamic",
        "The trap's text is unknown before the run",
        "Bad: trap \"$x\" EXIT. Good: trap 'echo x' EXIT.",
    ),
    ("builtin.test_open", "A test without its closing bracket", "Bad: [ -s x. Good: [ -s x ]."),
    ("builtin.option", "The builtin's option isn't allowed", "Bad: set -k. Good: set -euo pipefail."),
    ("function.name", "A function hides a command", "Bad: read() { :; }. Good: show() { cat; }."),
    ("option.refused", "The policy refuses an option", "Bad: sort --compress-program=x. Good: sort."),
    ("option.dynamic", "An option is unknown before the run", "Bad: sort --$x. Good: sort --reverse."),
    ("path.outside", "A path outside the sandbox directory", "Bad: cat /etc/passwd. Good: cat data/x."),
    (
        "path.missing",
        "A file or folder that doesn't exist",
        "Bad: cat data/sale.csv, if the submitted file is data/sales.csv.",
    ),
    (
        "redirect.network",
        "A path opens a network connection",
        "Bad: cat < /dev/tcp/h/80. Good: cat < data/x.",
    ),
    ("variable.protected", "The variable can't be set", "Bad: PATH=tmp. Good: path=tmp."),
    (
        "variable.dynamic_name",
        "A variable's name is unknown before the run",
        'Bad: read "$x". Good: read -r x.',
    ),
    ("expansion.prompt", "An expansion runs its value", "Bad: ${x@P}. Good: $x."),
    ("expansion.indirect", "An indirect expansion", "Bad: ${!x}. Good: ${map[$x]}."),
    ("quote.locale", "A message catalogue can replace the text", 'Bad: $"text". Good: "text".'),
    (
        "awk.execute",
        "The awk program runs a command",
        "Bad: awk '{ system(\"x\") }'. Good: awk '{ print }'.",
    ),
    (
        "awk.load",
        "The awk program loads code",
        "Bad: awk '@load \"x\"'. Good: functions in the program.",
    ),
    (
        "awk.unreadable",
        "The awk program is invalid",
        "Bad: awk '{ print \"x }'. Good: awk '{ print \"x\" }'.",
    ),
    ("sed.execute", "The sed script runs a command", "Bad: sed 's/a/b/e'. Good: sed 's/a/b/'."),
    ("sed.unreadable", "The sed script is invalid", "Bad: sed 's/a/b'. Good: sed 's/a/b/'."),
    (
        "curl.no_network",
        "curl without an allowed host",
        "Bad: curl https://a.example. Good: files under data/.",
    ),
    ("curl.url", "The address isn't allowed", 'Bad: curl "$url". Good: curl "https://open.example/$path".'),
)
_WARNING_ENTRIES = (
    ("sed.dynamic", "The sed script is unknown before the run", 'Bad: sed "$x". Good: sed "s/a/$x/".'),
    (
        "awk.dynamic",
        "The awk program is unknown before the run",
        'Bad: awk "$x". Good: awk -v n="$x" \'{ print n }\'.',
    ),
    (
        "awk.shell_variable",
        "A shell variable in a single-quoted awk program",
        "Bad: min=1; awk '$1 > $min' x. Good: awk -v min=\"$min\" '$1 > min' x.",
    ),
    (
        "path.undecided",
        "The path is unknown before the run",
        'Bad: cat a > "$x". Good: cat a > "tmp/$x".',
    ),
    (
        "curl.falls_back",
        "curl always falls back: no allowed host",
        "Bad: curl https://a.example || cat data/x. Good: cat data/x.",
    ),
    ("argument.undecided", "Arguments may be options", 'Bad: sort $x. Good: sort "$x".'),
    ("sed.undecided", "A value inside a sed script", 'Bad: sed "s/a/$x/". Good: awk -v x="$x" \'…\'.'),
    ("process.not_awaited", "Nothing waits for a process", "Bad: cat f &. Good: cat f & wait."),
)

_KEYS = {
    "awk.execute": "enforcement",
    "awk.load": "enforcement",
    "builtin.not_allowed": "commands.builtins",
    "builtin.option": "enforcement",
    "command.blocked": "commands.blocked",
    "command.coproc": "enforcement",
    "command.dynamic": "commands.allowed",
    "command.not_allowed": "commands.allowed",
    "command.obscured": "commands.allowed",
    "command.path": "commands.allowed",
    "curl.no_network": "network.hosts",
    "curl.url": "network.hosts",
    "expansion.indirect": "enforcement",
    "expansion.prompt": "enforcement",
    "function.name": "enforcement",
    "option.dynamic": "commands.options",
    "option.refused": "commands.options",
    "path.outside": "enforcement",
    "quote.locale": "enforcement",
    "redirect.network": "network.hosts",
    "sed.execute": "enforcement",
    "trap.dynamic": "enforcement",
    "variable.dynamic_name": "commands.protected",
    "variable.protected": "commands.protected",
}
"""The profile's keys that determine the rules; all other rules come from bash or a tool."""

COMMAND_RULES = add_profile_keys(
    (
        *(Rule(id=rule, title=title, help=example) for rule, title, example in _ERROR_ENTRIES),
        *(
            Rule(id=rule, title=title, severity=Severity.WARNING, help=example)
            for rule, title, example in _WARNING_ENTRIES
        ),
    ),
    _KEYS,
)
