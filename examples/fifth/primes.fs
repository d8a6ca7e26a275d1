\ Runs as it is: words of the engine only.
: prime? ( n -- flag )
  dup 2 < if drop false exit then
  2 begin
    2dup dup * < 0= while
    2dup mod 0= if 2drop false exit then
    1+
  repeat
  2drop true ;

: .primes ( n -- ) 2 ?do i prime? if i . then loop cr ;

50 .primes
