\ sieve_and_sort.fs - memory as tables: a sieve, a bubble sort, a binary search
1000 constant size
create marks size allot
create numbers 16 cells allot
variable count-found

: clear-marks ( -- ) marks size erase ;
: mark ( n -- ) marks + 1 swap c! ;
: marked? ( n -- flag ) marks + c@ ;

: mark-multiples ( n -- )
  dup dup *
  begin dup size < while dup mark over + repeat
  2drop ;

: sieve ( -- )
  clear-marks
  32 2 do
    i marked? 0= if i mark-multiples then
  loop ;

: count-primes ( -- n )
  0 size 2 do i marked? 0= if 1+ then loop ;

: number@ ( i -- n ) cells numbers + @ ;
: number! ( n i -- ) cells numbers + ! ;
: fill-numbers ( -- ) 16 0 do 100 i 37 * 101 mod - i number! loop ;

: exchange ( i j -- )
  over number@ over number@
  >r over number! nip
  r> swap number! ;

: in-order? ( i -- flag ) dup number@ swap 1+ number@ > 0= ;
: swap-next ( i -- )
  dup number@ over 1+ number@
  rot tuck number! 1+ number! ;
: bubble ( -- ) 15 0 do i in-order? 0= if i swap-next then loop ;
: sort ( -- ) 15 0 do bubble loop ;
: .numbers ( -- ) 16 0 do i number@ . loop cr ;

: middle ( low high -- low high middle ) 2dup + 2 / ;
: find-number ( n -- i | -1 )
  >r 0 16
  begin 2dup < while
    middle dup number@ r@ = if nip nip r> drop exit then
    dup number@ r@ < if 1+ rot drop swap else nip then
  repeat
  2drop r> drop -1 ;

: sum ( -- n ) 0 16 0 do i number@ + loop ;
: average ( -- n ) sum 16 / ;

sieve count-primes . cr
fill-numbers .numbers
sort .numbers
42 find-number . cr
average . cr
