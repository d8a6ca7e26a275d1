\ hanoi.fs - recursion in several forms
variable moves
variable depth-seen

: .move ( from to -- ) swap . ." -> " . cr ;
: other ( from to -- peg ) + 6 swap - ;

: hanoi ( n from to -- )
  rot dup 0= if drop 2drop exit then
  >r
  2dup other
  r@ 1- 2 pick 2 pick recurse
  drop
  2dup .move 1 moves +!
  2dup other swap
  r> 1- -rot recurse
  drop ;

: ackermann ( m n -- n )
  over 0= if nip 1+ exit then
  dup 0= if drop 1- 1 recurse exit then
  over swap 1- recurse swap 1- swap recurse ;

: binary ( n -- )
  dup 2 < if . exit then
  dup 2 / recurse 2 mod . ;

: depth-of ( n -- n ) dup if 2 / recurse 1+ then ;

: sum-digits ( n -- n )
  dup 10 < if exit then
  10 /mod recurse + ;

: reverse-digits ( n -- )
  dup 10 < if . exit then
  10 /mod swap . recurse ;

: choose ( n k -- n )
  dup 0= if 2drop 1 exit then
  2dup = if 2drop 1 exit then
  2dup 1- swap 1- swap recurse >r
  swap 1- swap recurse r> + ;

: pascal-row ( n -- ) dup 1+ 0 ?do dup i choose . loop drop cr ;
: pascal ( n -- ) 0 ?do i pascal-row loop ;

10 binary cr
2 3 ackermann . cr
98765 sum-digits . cr
6 pascal
