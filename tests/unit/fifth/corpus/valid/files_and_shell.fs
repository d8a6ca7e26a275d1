\ files_and_shell.fs - writing files, environment, shell commands
require ~/fifth/lib/core.fs

variable out
: out-path ( -- addr u ) s" /tmp/report.txt" ;

: out-open ( -- ) out-path w/o create-file throw out ! ;
: out-close ( -- ) out @ close-file throw ;
: >out ( addr u -- ) out @ write-file throw ;
: out-nl ( -- ) 10 out @ emit-file throw ;
: line>out ( addr u -- ) >out out-nl ;

: home ( -- addr u )
  s" HOME" getenv dup 0= if 2drop s" /root" then ;

: path ( name$ -- addr u )
  str-reset home str+ s" /" str+ str+ str$ ;

: exists ( addr u -- ) file-exists? if ." yes" else ." no" then cr ;

: mkdir ( addr u -- )
  str-reset s" mkdir -p " str+ str+ str$ system ;

: backup ( addr u -- )
  2dup file-exists? if
    str-reset s" cp " str+ 2dup str+ s"  " str+ str+ s" .bak" str+
    str$ system
  else
    2drop
  then ;

: setting ( value$ name$ -- ) >out s"  = " >out line>out ;

: write-report ( -- )
  out-open
  s" blue" s" colour" setting
  s" 12" s" size" setting
  home s" home" setting
  out-close ;

: show-file ( addr u -- ) slurp-file type ;

: copy-line ( fid fid -- flag )
  >r line-buf line-max rot read-line throw
  swap line-buf swap r> write-file throw ;

: main ( -- )
  s" /tmp/reports" mkdir
  out-path backup
  write-report
  out-path show-file
  s" settings" path exists ;

main bye
