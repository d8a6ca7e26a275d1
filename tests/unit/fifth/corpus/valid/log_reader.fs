\ log_reader.fs - reads a file line by line and counts what it finds
require ~/fifth/lib/core.fs

variable log-fid
variable errors
variable warnings
variable others
: log-file ( -- addr u ) s" /var/log/app.log" ;

: open-log ( -- ) log-file r/o open-file throw log-fid ! ;
: close-log ( -- ) log-fid @ close-file throw ;

: next-line ( -- addr u flag )
  line-buf line-max log-fid @ read-line throw
  line-buf -rot ;

: kind-of ( addr u -- c ) if c@ else drop bl then ;

: tally ( c -- )
  case
    [char] E of 1 errors +! endof
    [char] W of 1 warnings +! endof
    1 others +!
  endcase ;

: read-log ( -- )
  open-log
  begin next-line while
    kind-of tally
  repeat 2drop
  close-log ;

: share ( n -- percent )
  100 * errors @ warnings @ + others @ + 1 max / ;

: .share ( n label$ -- ) type space dup . s" (" type share . s" %)" type cr ;

: report ( -- )
  ." Log report" cr
  errors @ s" errors" .share
  warnings @ s" warnings" .share
  others @ s" others" .share ;

: bar ( n -- ) 0 ?do [char] # emit loop cr ;

: chart ( -- )
  errors @ share bar
  warnings @ share bar
  others @ share bar ;

: main ( -- )
  log-file file-exists? 0= if
    ." no log" cr exit
  then
  read-log report chart ;

main
