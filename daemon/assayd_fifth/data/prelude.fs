\ Makes gforth run programs of Fifth: what it lacks, what it does otherwise, and what a sandbox cannot give.
\ Loaded before a submission. What it says of its own begins with "assayd:", on standard error.
warnings off

\ Words of the engine that gforth lacks.
: not ( x -- flag ) 0= ;
: nls ( n -- ) 0 ?do cr loop ;
: print ( addr u -- ) type cr ;
: .fifth ( -- ) ." Fifth, in a sandbox" cr ;
\ As in the engine: the text 0, and the number below it. Libraries bring one of their own, which hides nothing.
: assayd-n>str ( n -- n addr u ) s" 0" ;
: n>str ( n -- n addr u ) assayd-n>str ;

\ Nothing runs beside a program here: a thread has done its work when spawn comes back.
: spawn ( xt -- tid ) execute 0 ;
: wait ( tid -- n ) drop 0 ;
: wait-all ( -- ) ;
: thread-done? ( tid -- flag ) drop true ;
: nproc ( -- n ) 1 ;

\ What a sandbox cannot give ends the program, which is no fault of it.
: assayd-note ( addr u -- ) stderr write-file drop ;
: assayd-stop ( addr u what$ -- )
  s" assayd: " assayd-note assayd-note s"  " assayd-note assayd-note s\" \n" assayd-note
  stdout flush-file drop 0 (bye) ;
: system ( addr u -- ) s" no-programs" assayd-stop ;
: open-path ( addr u -- ) s" no-programs" assayd-stop ;

\ The work directory stands in for /tmp, which cannot be written.
: assayd-place ( addr u -- addr u ) 2dup s" /tmp/" string-prefix? if 5 /string then ;
: create-file ( addr u mode -- fid ior ) >r assayd-place r> create-file ;
: open-file ( addr u mode -- fid ior ) >r assayd-place r> open-file ;
: slurp-file ( addr u -- addr u ) assayd-place slurp-file ;

\ Words that both have and that differ. Libraries are written for gforth's, programs for Fifth's.
wordlist constant assayd-words
get-current assayd-words set-current
: # ( n -- n ) 0 # drop ;
: #s ( n -- 0 ) 0 #s drop ;
: #> ( n -- addr u ) 0 #> ;
: find ( addr u -- addr u 0 | xt 1 | xt -1 ) 2dup sfind dup if 2swap 2drop then ;
set-current
: assayd-on ( -- ) get-order assayd-words swap 1+ set-order ;
: assayd-off ( -- ) get-order nip 1- set-order ;

\ Files: those of the submission first, then the library directory of the image.
: assayd-library ( -- addr u ) s" /usr/share/forth/lib/" ;
create assayd-path 1024 allot
variable assayd-depth
: assayd-there? ( addr u -- flag ) r/o open-file if drop false else close-file drop true then ;
: assayd-short ( addr u -- addr u )
  2dup s" lib:" string-prefix? if 4 /string then
  2dup s" pkg:" string-prefix? if 4 /string then
  2dup s" ./" string-prefix? if 2 /string then ;
: assayd-joined ( name$ folder$ -- path$ ) assayd-path place  200 min assayd-path +place  assayd-path count ;
: assayd-here ( name$ -- path$ ) s" ~+/" assayd-joined ;
: assayd-in-library ( name$ -- path$ ) assayd-library assayd-joined ;
: assayd-find ( addr u -- addr u flag )
  assayd-short 2dup assayd-there? if assayd-here true exit then
  basename 2dup assayd-there? if assayd-here true exit then
  2dup assayd-in-library assayd-there? if assayd-in-library true else false then ;
: assayd-load ( addr u xt -- )
  >r assayd-find 0= if s" library-unavailable" assayd-stop then
  save-mem r> >r
  2dup assayd-library string-prefix? assayd-depth @ 0= and if
    1 assayd-depth ! assayd-off r> execute assayd-on 0 assayd-depth !
    s" : n>str assayd-n>str ;" evaluate
  else
    r> execute
  then ;
: included ( addr u -- ) ['] included assayd-load ;
: include ( "path" -- ) parse-name included ;
: require ( "path" -- ) parse-name ['] required assayd-load ;
assayd-on
