\ parallel_jobs.fs - threads, waiting, and a report
require ~/fifth/lib/core.fs
variable done
create results 4 cells allot

: work ( -- ) 1 done +! ;
: slow-sum ( -- n ) 0 1000 0 do i + loop ;
: store-sum ( -- ) slow-sum results ! ;

: start ( xt -- tid ) spawn ;
: finish ( tid -- ) wait drop ;
: busy? ( tid -- flag ) thread-done? 0= ;

: run-two ( -- )
  ['] work start
  ['] store-sum start
  finish finish ;

: poll ( tid -- )
  begin dup busy? while ." ." repeat
  finish ;

: many ( n -- ) 0 ?do ['] work spawn drop loop wait-all ;

: .workers ( -- ) ." processors: " nproc . cr ;

: settings$ ( -- addr u ) s" settings" ;
: assert-positive ( n -- n ) dup 0> ?? ;

: buffer-size ( -- n ) 2 KB ;
: cache-size ( -- n ) 16 MB ;

: summary ( -- )
  .workers
  ." done: " done @ . cr
  ." sum: " results @ . cr
  buffer-size . cache-size . cr ;

run-two
nproc many
summary
bye
