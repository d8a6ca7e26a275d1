\ macros.fs - compile-time words: immediate, postpone, literals, xts
: unless ( -- ) postpone 0= postpone if ; immediate
: end-unless ( -- ) postpone then ; immediate
: ?exit ( flag -- ) postpone if postpone exit postpone then ; immediate
: squared ( n -- n ) postpone dup postpone * ; immediate

: report ( n -- )
  dup 10 < unless ." large" end-unless drop ;
: check ( n -- )
  dup 0< ?exit
  . ;
: area ( n -- n ) squared ;

: seconds-per-day ( -- n ) [ 24 60 * 60 * ] literal ;
: star ( -- c ) [ char * ] literal ;

: apply ( n xt -- n ) execute ;
: twice ( n xt -- n ) dup >r execute r> execute ;
: negative ( n -- n ) negate ;
: plus-one ( n -- n ) 1+ ;

: choose ( flag -- xt ) if ['] negative else ['] plus-one then ;

create actions ' negative , ' plus-one ,
: action ( n -- xt ) cells actions + @ ;
: perform-all ( n -- )
  2 0 do dup i action execute . loop drop ;

defer hook
' plus-one is hook
: hooked ( n -- n ) hook ;

: type-of ( n -- )
  dup 0= if drop ." zero" exit then
  0< if ." below" else ." above" then ;

5 report 5 check 5 area . cr
5 ' plus-one twice . cr
true choose 5 swap apply . cr
7 perform-all cr
seconds-per-day . star emit cr
3 hooked . -4 type-of cr
