"""The tools that read, write, count and compare text, or look at names; `tools` has the first ones.

Each line is the tool's own grammar; a test asks the tools in the image whether it still is.
"""

from __future__ import annotations

from collections.abc import Mapping

from assayd.static.shell.parse.options import Syntax
from assayd.static.shell.rules.tool import Operands, Tool

_HELP = " help version"
_DIGITS = "0123456789"
_SUMS = Tool(
    syntax=Syntax(
        short="bctwz",
        long="binary check ignore-missing quiet status strict tag text warn zero" + _HELP,
    )
)


def _files(
    short: str,
    long: str = "",
    *,
    operands: Operands = Operands.FILES,
    reads: str = "",
    writes: str = "",
    texts: str = "",
) -> Tool:
    return Tool(
        syntax=Syntax(short=short, long=long + _HELP),
        operands=operands,
        reads=frozenset(reads.split()),
        writes=frozenset(writes.split()),
        texts=frozenset(texts.split()),
    )


def _text(short: str, long: str = "") -> Tool:
    return _files(short, long, operands=Operands.TEXT)


def _written(short: str, long: str = "", *, reads: str = "", writes: str = "") -> Tool:
    return _files(short, long, operands=Operands.ALL_WRITTEN, reads=reads, writes=writes)


TEXT_TOOLS: Mapping[str, Tool] = {
    "base64": _files("diw:", "decode ignore-garbage wrap="),
    "basename": _text("as:z", "multiple suffix= zero"),
    "bc": _files("chilqsvw", "compile interactive mathlib quiet standard warn"),
    "cksum": _files(
        "a:bcl:twz",
        "algorithm= binary check debug ignore-missing length= quiet status strict tag text untagged warn "
        "zero",
    ),
    "cmp": _files("bci:ln:sv", "bytes= ignore-initial= print-bytes print-chars quiet silent verbose"),
    "column": _files(
        "c:dehi:l:n:o:p:r:s:txE:H:JLN:O:R:T:VW:",
        "columns= fillrows json keep-empty-lines output-separator= output-width= separator= table "
        "table-columns= table-columns-limit= table-empty-lines table-header-repeat table-hide= "
        "table-name= table-noextreme= table-noheadings table-order= table-right= table-truncate= "
        "table-wrap= tree= tree-id= tree-parent=",
    ),
    "comm": _files(
        "123z", "check-order debug-check-order nocheck-order output-delimiter= total zero-terminated"
    ),
    "diff": _files(
        "abBcC:dD:eEfF:hHiI:lL:nNpPqrsS:tTuU:vwW:x:X:yZ" + _DIGITS,
        "binary brief changed-group-format= color=? context=? ed exclude= exclude-from= expand-tabs "
        "forward-ed from-file= GTYPE-group-format= horizon-lines= ifdef= ignore-all-space "
        "ignore-blank-lines ignore-case ignore-file-name-case ignore-matching-lines= ignore-space-change "
        "ignore-tab-expansion ignore-trailing-space inhibit-hunk-merge initial-tab label= left-column "
        "line-format= LTYPE-line-format= minimal new-file new-group-format= new-line-format= "
        "no-dereference no-ignore-file-name-case normal old-group-format= old-line-format= paginate "
        "palette= rcs recursive report-identical-files sdiff-merge-assist show-c-function "
        "show-function-line= side-by-side speed-large-files starting-file= strip-trailing-cr "
        "suppress-blank-empty suppress-common-lines tabsize= text to-file= unchanged-group-format= "
        "unchanged-line-format= unidirectional-new-file unified=? width=",
        reads="-X --exclude-from --from-file --to-file",
    ),
    "dirname": _text("z", "zero"),
    "expand": _files("it:" + _DIGITS, "initial tabs="),
    "expr": _text(""),
    "factor": _text(""),
    "false": _text(""),
    "find": _text(""),
    "fmt": _files(
        "cg:p:stuw:" + _DIGITS,
        "crown-margin goal= prefix= split-only tagged-paragraph uniform-spacing width=",
    ),
    "fold": _files("bsw:" + _DIGITS, "bytes spaces width="),
    "getopt": _text(
        "ahl:n:o:qs:uQTV", "alternative longoptions= name= options= quiet quiet-output shell= test unquoted"
    ),
    "id": _text("agGnruzZ", "context group groups name real user zero"),
    "join": _files("a:e:ij:o:t:v:z1:2:", "check-order header ignore-case nocheck-order zero-terminated"),
    "ls": _files(
        "abcdfghiklmnopqrstuvw:xABCDFGHI:LNQRST:UXZ1",
        "all almost-all author block-size= classify=? color=? context dereference "
        "dereference-command-line dereference-command-line-symlink-to-dir directory dired escape "
        "file-type format= full-time group-directories-first hide= hide-control-chars human-readable "
        "hyperlink=? ignore= ignore-backups indicator-style= inode kibibytes literal no-group "
        "numeric-uid-gid quote-name quoting-style= recursive reverse show-control-chars si size sort= "
        "tabsize= time= time-style= width= zero",
    ),
    "md5sum": _SUMS,
    "mkdir": _written("m:pvZ", "context=? mode= parents verbose"),
    "mktemp": _written(
        "dp:qtuV",
        "directory dry-run quiet suffix= tmpdir=?",
        writes="-p --tmpdir",
    ),
    "nl": _files(
        "b:d:f:h:i:l:n:ps:v:w:",
        "body-numbering= footer-numbering= header-numbering= join-blank-lines= line-increment= no-renumber "
        "number-format= number-separator= number-width= section-delimiter= starting-line-number=",
    ),
    "nproc": _text("", "all ignore="),
    "numfmt": _text(
        "d:z",
        "debug delimiter= dev-debug field= format= from= from-unit= grouping header=? invalid= padding= "
        "round= suffix= to= to-unit= zero-terminated",
    ),
    "od": _files(
        "abcdefhij:lost:vw::xA:BDFHILN:OS:X",
        "address-radix= endian= format= output-duplicates read-bytes= skip-bytes= strings=? traditional "
        "width=?",
    ),
    "paste": _files("d:sz", "delimiters= serial zero-terminated"),
    "pr": _files(
        "abcde::fh:i::l:mn::o:rs::tvw:D:FJN:S::TW:" + _DIGITS,
        "across columns= date-format= double-space expand-tabs=? first-line-number= form-feed header= "
        "indent= join-lines length= merge no-file-warnings number-lines=? omit-header omit-pagination "
        "output-tabs=? page-width= pages= sep-string=? separator=? show-control-chars show-nonprinting "
        "width=",
    ),
    "printf": _text(""),
    "pwd": _text("LP", "logical physical"),
    "readlink": _files(
        "efmnqsvz",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
    ),
    "realpath": _files(
        "emqszLP",
        "canonicalize-existing canonicalize-missing logical no-symlinks physical quiet relative-base= "
        "relative-to= strip zero",
    ),
    "rev": _files("hV"),
    "rmdir": _written("pv", "ignore-fail-on-non-empty parents path verbose"),
    "seq": _text("f:s:w", "equal-width format= separator="),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "shuf": _files(
        "ei:n:o:rz",
        "echo head-count= input-range= output= random-source= repeat zero-terminated",
        reads="--random-source",
        writes="-o --output",
        texts="-e --echo",
    ),
    "sleep": _text(""),
    "split": Tool(
        syntax=Syntax(
            short="a:b:del:n:t:uxC:" + _DIGITS,
            long="additional-suffix= bytes= elide-empty-files filter= hex-suffixes=? line-bytes= "
            "lines= number= numeric-suffixes=? separator= suffix-length= unbuffered verbose" + _HELP,
        ),
        operands=Operands.SECOND_WRITTEN,
    ),
    "stat": _files("c:ftL", "cached= dereference file-system format= printf= terse"),
    "sum": _files("rs", "sysv"),
    "tac": _files("brs:", "before regex separator="),
    "tee": _written("aip", "append ignore-interrupts output-error=?"),
    "test": _text(""),
    "touch": _written(
        "acd:fhmr:t:",
        "date= no-create no-dereference reference= time=",
        reads="-r --reference",
    ),
    "tr": _text("AcCdst", "complement delete squeeze-repeats truncate-set1"),
    "true": _text(""),
    "truncate": _written("cor:s:", "io-blocks no-create reference= size=", reads="-r --reference"),
    "tsort": _files(""),
    "uname": _text(
        "aimnoprsv",
        "all hardware-platform kernel-name kernel-release kernel-version machine nodename operating-system "
        "processor release sysname",
    ),
    "unexpand": _files("at:" + _DIGITS, "all first-only tabs="),
    "whoami": _text(""),
    "yes": _text(""),
}
