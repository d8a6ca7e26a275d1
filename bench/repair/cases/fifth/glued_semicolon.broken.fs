: square ( n -- n ) dup *;
: cube ( n -- n ) dup square * ;

4 square . 3 cube . cr
