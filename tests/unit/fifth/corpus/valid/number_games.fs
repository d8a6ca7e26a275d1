\ number_games.fs - arithmetic with loops, recursion and case; no library at all

: square ( n -- n*n ) dup * ;
: cube ( n -- n*n*n ) dup square * ;
: even? ( n -- flag ) 2 mod 0= ;
: odd? ( n -- flag ) even? 0= ;
: between? ( n low high -- flag ) >r over > 0= swap r> > 0= and ;

: factorial ( n -- n! )
  dup 2 < if drop 1 exit then
  dup 1- recurse * ;

: fibonacci ( n -- n )
  dup 2 < if exit then
  dup 1- recurse swap 2 - recurse + ;

: gcd ( a b -- n ) begin dup while tuck mod repeat drop ;
: power ( base n -- n ) 1 swap 0 ?do over * loop nip ;
: sum-to ( n -- n ) 0 swap 1+ 0 ?do i + loop ;

: digits ( n -- n ) 0 begin 1+ swap 10 / swap over 0= until nip ;

: collatz ( n -- n ) dup even? if 2 / else 3 * 1+ then ;
: collatz-steps ( n -- n )
  0 swap
  begin dup 1 > while collatz swap 1+ swap repeat drop ;

: prime? ( n -- flag )
  dup 2 < if drop false exit then
  2 begin
    2dup dup * < 0= while
    2dup mod 0= if 2drop false exit then
    1+
  repeat
  2drop true ;

: .primes ( n -- ) 2 ?do i prime? if i . then loop ;

: fizz ( n -- )
  dup 15 mod 0= if drop ." fizzbuzz" exit then
  dup 5 mod 0= if drop ." buzz" exit then
  dup 3 mod 0= if drop ." fizz" exit then
  . ;

: fizzes ( n -- ) 1+ 1 ?do i fizz space loop ;

: day-name ( n -- )
  case
    0 of ." Sunday" endof
    1 of ." Monday" endof
    2 of ." Tuesday" endof
    6 of ." Saturday" endof
    ." a weekday"
  endcase ;

: table ( n -- )
  1+ 1 ?do
    10 1 do j i * . loop cr
  loop ;

: countdown ( n -- ) begin dup . 1- dup 0= until drop ;
: evens ( n -- ) 0 ?do i . 2 +loop ;

7 factorial . cr
10 fibonacci . cr
48 36 gcd . cr
30 .primes cr
27 collatz-steps . cr
20 fizzes cr
6 day-name cr
$ff . %1010 . #42 . 0x1f . cr
