\ csv_table.fs - turns comma separated lines into an HTML table
require ~/fifth/lib/core.fs

variable csv-fid
variable row-number
create sums 8 cells allot

: columns 4 ;
: csv-file ( -- addr u ) s" data/sales.csv" ;

: csv-open ( -- ) csv-file r/o open-file throw csv-fid ! ;
: csv-close ( -- ) csv-fid @ close-file drop ;
: csv-line ( -- addr u flag )
  line-buf line-max csv-fid @ read-line throw line-buf -rot ;

: field ( row$ n -- row$ field$ ) parse-comma ;
: header-row? ( -- flag ) row-number @ 0= ;

: clear-sums ( -- ) columns 0 do 0 i cells sums + ! loop ;
: add-sum ( n column -- ) cells sums + +! ;
: sum@ ( column -- n ) cells sums + @ ;

: as-number ( addr u -- n ) s>number? if drop else 2drop 0 then ;

: header-cells ( row$ -- row$ )
  columns 0 do i field th. loop ;
: data-cells ( row$ -- row$ )
  columns 0 do
    i field 2dup td.
    as-number i add-sum
  loop ;

: one-row ( row$ -- )
  <tr>
  header-row? if header-cells else data-cells then
  2drop
  </tr>
  1 row-number +! ;

: sum-row ( -- )
  s" sums" <tr.>
  columns 0 do i sum@ n>str td. loop
  </tr> ;

: all-rows ( -- )
  begin csv-line while
    dup 0> if one-row else 2drop then
  repeat 2drop ;

: csv>table ( -- )
  clear-sums 0 row-number !
  csv-open
  <table> all-rows sum-row </table>
  csv-close ;

: page ( -- )
  s" Sales" html-begin
  s" Sales" h1.
  csv>table
  row-number @ n>str p.
  html-end ;

: run ( -- ) csv-file file-exists? if html>stdout page else ." no data" cr then ;
run
