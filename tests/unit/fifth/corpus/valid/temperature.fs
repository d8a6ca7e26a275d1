\ temperature.fs - a table of temperatures, in whole degrees

: c>f ( c -- f ) 9 * 5 / 32 + ;
: f>c ( f -- c ) 32 - 5 * 9 / ;
: .deg ( n -- ) dup 0< if [char] - emit negate then . ;
: pad-to ( n width -- ) over 10 < if 1- then 1 max spaces drop ;
: row ( c -- ) dup 4 pad-to dup .deg space c>f .deg cr ;
: heading ( -- ) ." celsius fahrenheit" cr 20 0 do [char] = emit loop cr ;

: table ( last first -- )
  heading
  ?do i row 5 +loop ;

: coldest ( a b c -- n ) min min ;
: warm? ( c -- flag ) 20 > ;
: comment ( c -- )
  dup 0 < if drop ." freezing" exit then
  dup warm? if drop ." warm" exit then
  drop ." mild" ;

101 -10 table
3 -4 12 coldest comment cr
212 f>c .deg cr
