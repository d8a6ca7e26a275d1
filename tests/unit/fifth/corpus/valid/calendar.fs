\ calendar.fs - days, weeks and months, on the terminal and as a table
require ~/fifth/lib/html.fs

create month-days 31 , 28 , 31 , 30 , 31 , 30 , 31 , 31 , 30 , 31 , 30 , 31 ,

: divides? ( n d -- flag ) mod 0= ;
: leap? ( year -- flag )
  dup 400 divides? if drop true exit then
  dup 100 divides? if drop false exit then
  4 divides? ;

: days-in ( month year -- n )
  over 2 = if
    nip leap? if 29 else 28 then
  else
    drop 1- cells month-days + @
  then ;

: shifted ( month year -- month year )
  over 3 < if 1- swap 12 + swap then ;

\ Zeller's way, 0 is Saturday
: weekday ( day month year -- n )
  shifted
  >r 1+ 13 * 5 / +
  r@ + r@ 4 / + r@ 100 / - r> 400 / +
  7 mod ;

: monday-first ( n -- n ) 5 + 7 mod ;

: month-name ( n -- addr u )
  case
    1 of s" January" endof
    2 of s" February" endof
    3 of s" March" endof
    12 of s" December" endof
    >r s" another month" r>
  endcase ;

: .day ( n -- ) dup 10 < if space then . ;
: indent ( n -- ) 0 ?do ."    " loop ;

variable column
: next-column ( -- )
  column @ 1+ 7 mod dup column ! 0= if cr then ;

: .month ( month year -- )
  over month-name type space dup . cr
  2dup 1 -rot weekday monday-first dup column ! indent
  days-in 1+ 1 ?do i .day next-column loop cr ;

: day-cell ( n -- ) n>str td. ;
: empty-cells ( n -- ) 0 ?do <td> </td> loop ;
: html-week ( first last -- ) <tr> 1+ swap ?do i day-cell loop </tr> ;

: html-month ( month year -- )
  <table>
  2dup 1 -rot weekday monday-first <tr> empty-cells </tr>
  days-in 1 swap html-week
  </table> ;

2 2024 days-in . cr
11 2026 .month
html>stdout 11 2026 html-month
bye
