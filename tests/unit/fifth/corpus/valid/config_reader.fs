\ config_reader.fs - reads name=value lines and looks one up
require lib/str.fs

64 constant name-max
create wanted 64 allot
variable wanted-len
variable hits

: want ( addr u -- ) name-max min dup wanted-len ! wanted swap move ;
: wanted$ ( -- addr u ) wanted wanted-len @ ;
: comment? ( addr u -- flag ) 0= if drop true exit then c@ [char] # = ;
: split-at ( addr u c -- rest-addr rest-u name-addr name-u )
  >r 2dup r> str-find-char
  dup 0= if 2drop 2dup 2swap exit then
  2over drop >r over r> -
  >r 1 /string 2swap drop r> ;
: show-hit ( addr u -- ) 1 hits +! wanted$ type ."  is " type cr ;
: one-line ( addr u -- )
  2dup comment? if 2drop exit then
  [char] = split-at
  wanted$ str= if show-hit else 2drop then ;
: scan-file ( fid -- )
  begin
    dup line-buf line-max rot read-line throw
  while
    line-buf swap one-line
  repeat
  drop close-file throw ;
: find-in ( name$ file$ -- )
  2swap want 0 hits !
  r/o open-file throw scan-file
  hits @ 0= if ." not found" cr then ;

s" port" s" app.conf" find-in
