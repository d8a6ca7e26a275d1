\ stack_queue.fs - a stack and a ring of cells in memory

16 constant ring-size
create ring 16 cells allot
variable head
variable tail
variable filled

: ring-cell ( n -- addr ) ring-size mod cells ring + ;
: full? ( -- flag ) filled @ ring-size = ;
: empty? ( -- flag ) filled @ 0= ;
: enqueue ( n -- )
  full? abort" the ring is full"
  head @ ring-cell !
  1 head +! 1 filled +! ;
: dequeue ( -- n )
  empty? abort" the ring is empty"
  tail @ ring-cell @
  1 tail +! -1 filled +! ;
: each-item ( xt -- )
  filled @ 0 ?do
    tail @ i + ring-cell @ over execute
  loop drop ;
: print-item ( n -- ) . ;
: total ( -- n ) 0 filled @ 0 ?do tail @ i + ring-cell @ + loop ;

: counter ( n "name" -- ) create , does> ( -- n ) dup @ swap 1 swap +! ;
10 counter next-id

: fill-some ( n -- ) 0 ?do i i * enqueue loop ;
: drain ( -- ) begin empty? not while dequeue . repeat cr ;

5 fill-some
' print-item each-item cr
total . cr
drain
next-id . next-id . cr
