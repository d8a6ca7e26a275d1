\ invoice.fs - amounts in cents, an invoice as text and as HTML
require ~/fifth/lib/core.fs

variable total
variable lines
: vat-percent 19 ;
: currency s" EUR" ;

: cents ( n -- addr u )
  dup abs <# # # [char] . hold #s swap sign #> ;
: .cents ( n -- ) cents type space currency type ;

: reset-invoice ( -- ) 0 total ! 0 lines ! ;
: add ( cents -- ) total +! 1 lines +! ;
: vat ( cents -- cents ) vat-percent 100 */ ;
: net ( -- cents ) total @ ;
: gross ( -- cents ) net dup vat + ;

: line ( text$ count cents -- )
  * dup add >r
  2dup type
  30 swap - 0 max spaces
  drop r> .cents cr ;

: rule ( -- ) 42 0 do [char] - emit loop cr ;

: print-invoice ( -- )
  ." INVOICE" cr rule
  s" Bolts" 100 5 line
  s" Hammer" 1 1899 line
  s" Saw" 2 2450 line
  rule
  ." Net   " net .cents cr
  ." VAT   " net vat .cents cr
  ." Gross " gross .cents cr ;

: amount-cell ( cents -- ) <td> cents text </td> ;

: html-line ( text$ cents -- )
  >r <tr> td. r> amount-cell </tr> ;

: html-total ( label$ cents -- )
  >r s" total" <tr.> th. r> amount-cell </tr> ;

: html-invoice ( -- )
  s" Invoice" html-begin
  s" Invoice" h1.
  <table>
    s" Bolts" 500 html-line
    s" Hammer" 1899 html-line
    s" Net" net html-total
    s" VAT" net vat html-total
    s" Gross" gross html-total
  </table>
  html-end ;

reset-invoice
print-invoice
html>stdout html-invoice
bye
