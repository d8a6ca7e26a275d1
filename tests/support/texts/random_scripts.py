"""Random scripts of nested quotes, expansions and substitutions, with a command in them that must not run."""

from __future__ import annotations

from random import Random

_TOKENS = [
    "rm", "echo", "a", "x", " ", "\n", ";", "$x", "$(rm)", "`rm`", "\\`rm\\`", "\\$(rm)", "\\", "'",
    '"', "$", "#", " #", "*", "?", "~", "!", "^", ",", "1", "+", "0", "@", "%", "=", "-", ":", "/",
    "x=", "x+=", "a[0]=", "declare ", "let ", "(( ", "<<< ", "| ", "&& ", "${x}", "$((1))", "<(rm)",
    ">(rm)", "$'", "[", "]", "{", "}", "(", ")", "@(a|`rm`)", "+(", "\\\n",
]  # fmt: skip
_AROUND = [
    ("'", "'"), ('"', '"'), ("$(", ")"), ("`", "`"), ("${x:-", "}"), ("${x:=", "}"), ("${x+", "}"),
    ("${x#", "}"), ("${x%%", "}"), ("${x/", "}"), ("${x//a/", "}"), ("${x:", "}"), ("${x^", "}"),
    ("${a[", "]}"), ("$((", "))"), ("$[", "]"), ("((", "))"), ("$'", "'"), ("(", ")"), ("{ ", "; }"),
    ("<<E\n", "\nE\n"), ("<<'E'\n", "\nE\n"), ("<<-E\n", "\n\tE\n"), ("<<\\E\n", "\nE\n"),
    ('<<"E F"\n', "\nE F\n"), ('echo "', '"'), ("a=(", " )"), ("a[", "]=1"), ("a=([", "]=1)"),
    ("case x in ", ") echo;; esac"), ("[[ ", " ]]"), ("[[ x =~ ", " ]]"), ("[[ x == ", " ]]"),
    ("[[ -v ", " ]]"), ("[[ ", " -eq 1 ]]"), ("@(", ")"), ("!(", ")"), ("let ", ""), ("let '", "'"),
    ('let "', '"'), ("for i in ", "; do echo; done"), ("x=", "; echo $((x))"), ("x='", "'; ((x))"),
    ('x="', '"; ((x))'), ("#", "\n"), ("f() { ", "; }; f"), ("echo {a,", "}"), ('"${x:-', '}"'),
    ("\"${x:-'", "'}\""), ("cat <<E\n${x:-", "}\nE\n"), ("printf -v a[", "] y"), ("test -v ", ""),
    ("unset ", ""), ("export ", ""), ("for ((i=", ";i<1;i++)); do :; done"), ("! ", ""),
]  # fmt: skip


def scripts(seed: int, count: int) -> list[str]:
    """Return so many scripts that name the command; the same for the same seed."""
    random = Random(seed)
    made = (_script(random, random.choice([2, 3, 3, 4])) for _ in range(count))
    return list(dict.fromkeys(script for script in made if "rm" in script))


def _script(random: Random, depth: int) -> str:
    parts: list[str] = []
    for _ in range(random.choice([1, 1, 2, 2, 3])):
        if depth and random.random() < 0.6:
            before, after = random.choice(_AROUND)
            parts.append(before + _script(random, depth - 1) + after)
        else:
            parts.append(random.choice(_TOKENS))
        if random.random() < 0.15:
            parts.append(random.choice([" ", ";", "\n"]))
    return "".join(parts)
