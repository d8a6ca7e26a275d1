\ primes_gcd.fs - arithmetic in the usual words

: gcd ( a b -- n ) begin ?dup while tuck mod repeat ;
: lcm ( a b -- n ) 2dup gcd >r * r> / ;
: even? ( n -- flag ) 1 and 0= ;
: square ( n -- n*n ) dup * ;
: power ( base n -- n' ) 1 swap 0 ?do over * loop nip ;
: factorial ( n -- n! ) dup 2 < if drop 1 else dup 1- recurse * then ;
: fib ( n -- f ) 0 1 rot 0 ?do over + swap loop drop ;
: divides? ( n d -- flag ) mod 0= ;
: prime? ( n -- flag )
  dup 2 < if drop false exit then
  dup 2 ?do
    i square over > if drop true unloop exit then
    dup i divides? if drop false unloop exit then
  loop drop true ;
: digits ( n -- sum ) 0 swap begin ?dup while 10 /mod -rot + swap repeat ;
: collatz ( n -- steps )
  0 swap
  begin dup 1 > while
    dup even? if 2 / else 3 * 1+ then
    swap 1+ swap
  repeat drop ;
: clamp ( n low high -- n' ) rot min max ;
: sign-of ( n -- -1|0|1 ) dup 0> if drop 1 else 0< if -1 else 0 then then ;

12 18 gcd . 4 6 lcm . 2 10 power . 5 factorial . cr
10 fib . 27 collatz . 987 digits . -5 0 3 clamp . -7 sign-of . cr
