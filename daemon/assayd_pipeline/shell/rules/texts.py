"""The rules on what scripts do, with a bad line and what to do instead for each."""

from __future__ import annotations

from assayd.model.finding import Rule, Severity, keyed

_ERRORS = (
    (
        "command.not_allowed",
        "A command that is not allowed",
        "Bad: frob x. Good: f() { echo x; }; f.",
    ),
    (
        "command.blocked",
        "A command that is blocked",
        "Bad: rm data/x. Good: leave it; the directory is thrown away.",
    ),
    ("command.path", "A command that is named by a path", "Bad: /bin/cat x. Good: cat x."),
    ("command.obscured", "A command's name that is a pattern", "Bad: /bin/c?t x. Good: cat x."),
    ("command.dynamic", "A command that is known only when it runs", "Bad: $tool x. Good: cat x."),
    ("command.coproc", "A process beside the script", "Bad: coproc cat. Good: producer | consumer."),
    ("builtin.not_allowed", "A builtin that is not allowed", 'Bad: eval "$x". Good: the command itself.'),
    (
        "trap.dynamic",
        "A trap whose text is known only then",
        "Bad: trap \"$x\" EXIT. Good: trap 'echo x' EXIT.",
    ),
    ("builtin.test_open", "A test without its closing bracket", "Bad: [ -s x. Good: [ -s x ]."),
    ("builtin.option", "A builtin with an option that is refused", "Bad: set -k. Good: set -euo pipefail."),
    ("function.name", "A function that hides a command", "Bad: read() { :; }. Good: show() { cat; }."),
    ("option.refused", "An option that the policy refuses", "Bad: sort --compress-program=x. Good: sort."),
    ("option.dynamic", "An option that is known only when it runs", "Bad: sort --$x. Good: sort --reverse."),
    ("path.outside", "A path outside the sandbox directory", "Bad: cat /etc/passwd. Good: cat data/x."),
    (
        "path.missing",
        "A file or folder that doesn't exist",
        "Bad: cat data/sale.csv, if the submitted file is data/sales.csv.",
    ),
    ("redirect.network", "A network connection by a path", "Bad: cat < /dev/tcp/h/80. Good: cat < data/x."),
    ("variable.protected", "A variable that scripts may not set", "Bad: PATH=tmp. Good: path=tmp."),
    ("variable.dynamic_name", "A variable whose name is known only then", 'Bad: read "$x". Good: read -r x.'),
    ("expansion.prompt", "An expansion that runs its value", "Bad: ${x@P}. Good: $x."),
    ("expansion.indirect", "An expansion of a variable named elsewhere", "Bad: ${!x}. Good: ${map[$x]}."),
    ("quote.locale", "A text that a catalogue may replace", 'Bad: $"text". Good: "text".'),
    (
        "awk.execute",
        "An awk program that runs a command",
        "Bad: awk '{ system(\"x\") }'. Good: awk '{ print }'.",
    ),
    (
        "awk.load",
        "An awk program that loads or looks up code",
        "Bad: awk '@load \"x\"'. Good: functions in it.",
    ),
    (
        "awk.unreadable",
        "An awk program that cannot be read",
        "Bad: awk '{ print \"x }'. Good: awk '{ print \"x\" }'.",
    ),
    ("sed.execute", "A sed script that runs a command", "Bad: sed 's/a/b/e'. Good: sed 's/a/b/'."),
    ("sed.unreadable", "A sed script that cannot be read", "Bad: sed 's/a/b'. Good: sed 's/a/b/'."),
    ("curl.no_network", "curl without an open host", "Bad: curl https://a.example. Good: files under data/."),
    ("curl.url", "An address that is not open", 'Bad: curl "$url". Good: curl "https://open.example/$path".'),
)
_WARNINGS = (
    ("sed.dynamic", "A sed script that is known only then", 'Bad: sed "$x". Good: sed "s/a/$x/".'),
    (
        "awk.dynamic",
        "An awk program that is known only then",
        'Bad: awk "$x". Good: awk -v n="$x" \'{ print n }\'.',
    ),
    (
        "awk.shell_variable",
        "A variable of the shell in an awk program in single quotes",
        "Bad: min=1; awk '$1 > $min' x. Good: awk -v min=\"$min\" '$1 > min' x.",
    ),
    (
        "path.undecided",
        "A path that is known only when it runs",
        'Bad: cat a > "$x". Good: cat a > "tmp/$x".',
    ),
    (
        "curl.falls_back",
        "curl without an open host, and something in its place",
        "Bad: curl https://a.example || cat data/x. Good: cat data/x.",
    ),
    ("argument.undecided", "Arguments that may be options", 'Bad: sort $x. Good: sort "$x".'),
    ("sed.undecided", "A value inside a sed script", 'Bad: sed "s/a/$x/". Good: awk -v x="$x" \'…\'.'),
    ("process.not_awaited", "A process that nothing waits for", "Bad: cat f &. Good: cat f & wait."),
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
"""The profile's keys that state the rules; the rest is bash or a tool itself."""

COMMAND_RULES = keyed(
    (
        *(Rule(id=rule, title=title, help=example) for rule, title, example in _ERRORS),
        *(
            Rule(id=rule, title=title, severity=Severity.WARNING, help=example)
            for rule, title, example in _WARNINGS
        ),
    ),
    _KEYS,
)
