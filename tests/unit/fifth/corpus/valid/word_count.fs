\ word_count.fs - counts characters, words and lines of a file
require lib/str.fs

variable chars-seen
variable words-seen
variable lines-seen
variable in-word

: reset-counts ( -- ) 0 chars-seen ! 0 words-seen ! 0 lines-seen ! false in-word ! ;
: blank? ( c -- flag ) dup bl = swap 9 = or ;
: note-char ( c -- )
  1 chars-seen +!
  blank? if
    false in-word !
  else
    in-word @ not if 1 words-seen +! then
    true in-word !
  then ;
: note-line ( addr u -- )
  1 lines-seen +!
  false in-word !
  0 ?do dup i + c@ note-char loop drop ;
: read-lines ( fid -- )
  >r
  begin
    line-buf line-max r@ read-line throw
  while
    line-buf swap note-line
  repeat
  drop r> close-file drop ;
: report ( -- )
  lines-seen @ . words-seen @ . chars-seen @ . cr ;
: count-file ( addr u -- )
  reset-counts
  2dup r/o open-file if drop ." cannot open " type cr exit then
  read-lines type ." : " report ;

s" notes.txt" count-file
