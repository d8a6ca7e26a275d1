\ report_mail.fs - a text report, framed, from a table of values
require lib/str.fs

create amounts 120 , 80 , 45 , 310 ,
: amount-count ( -- n ) 4 ;
: amount ( n -- n' ) cells amounts + @ ;
: sum ( -- n ) 0 amount-count 0 do i amount + loop ;
: mean ( -- n ) sum amount-count / ;
: largest ( -- n ) 0 amount-count 0 do i amount max loop ;

: line ( width c -- ) swap 0 ?do dup emit loop drop cr ;
: rule ( -- ) 24 [char] - line ;
: labelled ( n label$ -- ) type ." : " n>str type cr ;

: subject ( -- addr u )
  str-reset
  s" Report: " str+
  sum n>str str+
  s"  in all" str+
  str$ ;

: body ( -- )
  rule
  sum s" sum" labelled
  mean s" mean" labelled
  largest s" largest" labelled
  rule ;

: bars ( -- )
  amount-count 0 do
    i amount 10 / 0 ?do [char] # emit loop
    space i amount . cr
  loop ;

subject type cr
body
bars
