\ Words that sound plausible, and one of gforth.
: shorten ( addr u n -- addr u )
  2dup <= if drop return then
  string-split foreach ;
