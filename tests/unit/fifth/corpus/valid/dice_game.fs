\ dice_game.fs - a small game with a random number of our own

variable seed
42 seed !
: random ( -- n ) seed @ 1103515245 * 12345 + $7fffffff and dup seed ! ;
: under ( n -- n' ) random swap mod ;
: die ( -- n ) 6 under 1+ ;

defer on-win
defer on-loss

: cheer ( -- ) ." you win" cr ;
: sigh ( -- ) ." you lose" cr ;
' cheer is on-win
' sigh is on-loss

: face ( n -- )
  case
    1 of ." one" endof
    2 of ." two" endof
    6 of ." six!" endof
    dup .
  endcase ;

: throw-two ( -- n ) die dup face space die dup face cr + ;
: judge ( n -- ) dup 7 = swap 11 = or if on-win else on-loss then ;
: rounds ( n -- ) 0 ?do throw-two judge loop ;

: histogram ( n -- )
  13 2 do
    i . space
    0 over 0 ?do die die + j = if 1+ then loop
    0 ?do [char] * emit loop cr
  loop drop ;

3 rounds
