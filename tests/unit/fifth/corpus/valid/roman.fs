\ roman.fs - numerals, temperatures, time spans: small conversions
require ~/fifth/lib/str.fs

: glyph ( n value text$ -- n )
  2>r
  begin 2dup < 0= while
    tuck - swap
    2r@ str+
  repeat
  drop 2r> 2drop ;

: roman ( n -- addr u )
  str-reset
  1000 s" M" glyph 900 s" CM" glyph
  500 s" D" glyph 400 s" CD" glyph
  100 s" C" glyph 90 s" XC" glyph
  50 s" L" glyph 40 s" XL" glyph
  10 s" X" glyph 9 s" IX" glyph
  5 s" V" glyph 4 s" IV" glyph
  1 s" I" glyph
  drop str$ ;

: f>c ( fahrenheit -- celsius ) 32 - 5 9 */ ;
: c>f ( celsius -- fahrenheit ) 9 5 */ 32 + ;
: .degrees ( n -- ) n>str type ." °" ;

: hms ( seconds -- seconds minutes hours ) 60 /mod 60 /mod ;
: .two ( n -- ) dup 10 < if [char] 0 emit then n>str type ;
: .time ( seconds -- ) hms .two ." :" .two ." :" .two ;

: ordinal ( n -- addr u )
  10 mod case
    1 of s" st" endof
    2 of s" nd" endof
    3 of s" rd" endof
    >r s" th" r>
  endcase ;
: .ordinal ( n -- ) dup n>str type ordinal type ;

: plural ( n noun$ -- )
  2>r dup n>str type space 2r> type
  1 = 0= if [char] s emit then ;

: span ( seconds -- )
  hms ?dup if s" hour" plural space then
  ?dup if s" minute" plural space then
  s" second" plural ;

1994 roman type cr
100 f>c .degrees cr
3725 .time cr
3725 span cr
22 .ordinal cr
