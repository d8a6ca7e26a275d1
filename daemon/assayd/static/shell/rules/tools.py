"""What the tools' arguments mean, as data: their options, and which of them are paths.

Only what matters for reading and writing. Which options are refused is the policy's business; awk, sed and
curl have rules of their own. A command that is not here has operands only, and each is taken for a path.
"""

from __future__ import annotations

from collections.abc import Mapping

from assayd.static.shell.parse.options import Syntax
from assayd.static.shell.rules.text_tools import TEXT_TOOLS
from assayd.static.shell.rules.tool import Operands, Tool

_COPY = (
    "backup=? context=? force interactive=? no-clobber no-target-directory strip-trailing-slashes suffix= "
)
_COPY += "target-directory= update=? verbose help version debug "

_GREP = Tool(
    syntax=Syntax(
        short="A:aB:bC:cD:d:Ee:Ff:GHhIiLlm:noPqRrsTUuVvwxX:yZz0123456789",
        long="after-context= basic-regexp before-context= binary binary-files= byte-offset color=? "
        "colour=? context= count devices= directories= dereference-recursive exclude= exclude-dir= "
        "exclude-from= extended-regexp file= files-with-matches files-without-match fixed-strings "
        "group-separator= help ignore-case include= initial-tab invert-match label= line-buffered "
        "line-number line-regexp max-count= no-filename no-group-separator no-ignore-case "
        "no-messages null null-data only-matching perl-regexp quiet recursive regexp= silent text "
        "unix-byte-offsets version with-filename word-regexp",
    ),
    operands=Operands.PATTERN_FIRST,
    reads=frozenset({"-f", "--file", "--exclude-from"}),
    patterns=frozenset({"-e", "--regexp", "-f", "--file"}),
)

TOOLS: Mapping[str, Tool] = {
    **TEXT_TOOLS,
    "egrep": _GREP,
    "fgrep": _GREP,
    "grep": _GREP,
    "cat": Tool(
        syntax=Syntax(
            short="AbeEnstTuv",
            long="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting "
            "help version",
        )
    ),
    "cp": Tool(
        syntax=Syntax(
            short="abdfHilLnPprRsS:t:TuvxZ",
            long=_COPY + "archive attributes-only copy-contents dereference link no-dereference no-preserve= "
            "one-file-system parents preserve=? recursive reflink=? remove-destination sparse= symbolic-link",
        ),
        operands=Operands.LAST_WRITTEN,
        writes=frozenset({"-t", "--target-directory"}),
        targets=frozenset({"-t", "--target-directory"}),
    ),
    "cut": Tool(
        syntax=Syntax(
            short="b:c:d:f:nsz",
            long="bytes= characters= fields= delimiter= only-delimited output-delimiter= complement "
            "zero-terminated help version",
        )
    ),
    "date": Tool(
        syntax=Syntax(
            short="d:f:I::r:Rs:u",
            long="date= debug file= iso-8601=? reference= resolution rfc-email rfc-822 rfc-2822 rfc-3339= "
            "set= uct universal utc help version",
        ),
        operands=Operands.TEXT,
        reads=frozenset({"-f", "--file", "-r", "--reference"}),
    ),
    "echo": Tool(syntax=Syntax(), operands=Operands.TEXT),
    "head": Tool(
        syntax=Syntax(
            short="c:n:qvz0123456789", long="bytes= lines= quiet silent verbose zero-terminated help version"
        )
    ),
    "mv": Tool(
        syntax=Syntax(short="bfinS:t:TuvZ", long=_COPY),
        operands=Operands.LAST_WRITTEN,
        writes=frozenset({"-t", "--target-directory"}),
        targets=frozenset({"-t", "--target-directory"}),
    ),
    "sort": Tool(
        syntax=Syntax(
            short="bcCdfghik:mMno:rRsS:t:T:uVzy:",
            long="batch-size= buffer-size= check=? compress-program= debug dictionary-order field-separator= "
            "files0-from= general-numeric-sort help human-numeric-sort ignore-case ignore-leading-blanks "
            "ignore-nonprinting key= merge month-sort numeric-sort output= parallel= random-sort "
            "random-source= reverse sort= stable temporary-directory= unique version version-sort "
            "zero-terminated",
        ),
        reads=frozenset({"--random-source"}),
        writes=frozenset({"-o", "--output", "-T", "--temporary-directory"}),
    ),
    "tail": Tool(
        syntax=Syntax(
            short="bc:fFln:qs:vz0123456789",
            long="bytes= follow=? lines= max-unchanged-stats= pid= quiet retry silent sleep-interval= "
            "verbose zero-terminated help version",
        )
    ),
    "uniq": Tool(
        syntax=Syntax(
            short="cdDf:is:uw:z0123456789",
            long="all-repeated=? check-chars= count group=? help ignore-case repeated skip-chars= "
            "skip-fields= unique version zero-terminated",
        ),
        operands=Operands.SECOND_WRITTEN,
    ),
    "wc": Tool(
        syntax=Syntax(
            short="clLmw",
            long="bytes chars files0-from= help lines max-line-length total= version words",
        )
    ),
    # Not in the shipped policy and image; an operator may add them to both.
    "dd": Tool(syntax=Syntax(), operands=Operands.TEXT),
    "ln": Tool(
        syntax=Syntax(short="bdfFiLnPrsS:t:Tv", long="symbolic force relative target-directory= " + _COPY),
        operands=Operands.LAST_WRITTEN,
        writes=frozenset({"-t", "--target-directory"}),
        targets=frozenset({"-t", "--target-directory"}),
    ),
}

AWK = Tool(
    syntax=Syntax(
        short="bcCd::D::e:E:F:gf:hi:Il:L::MnNo::Op::PrsStv:VW;",
        long="assign= bignum characters-as-bytes copyright csv debug=? dump-variables=? exec= "
        "field-separator= file= gen-pot help include= lint=? lint-old load= no-optimize non-decimal-data "
        "optimize posix pretty-print=? profile=? re-interval sandbox source= trace traditional "
        "use-lc-numeric version",
        ordered=True,
    )
)
SED = Tool(
    syntax=Syntax(
        short="nbe:f:Ei::l:rsuV:z",
        long="binary debug expression= file= follow-symlinks help in-place=? line-length= null-data quiet "
        "posix regexp-extended sandbox separate silent unbuffered version zero-terminated",
    )
)
