\ quiz.fs - questions on the terminal, with deferred words for the way of asking
create answer-buf 80 allot
variable score
variable asked

defer ask
defer tell

: ask-plain ( text$ -- ) type ."  ? " ;
: ask-loud ( text$ -- ) ." *** " type ."  ***" cr ;
: tell-right ( -- ) ." Right." cr ;
: tell-short ( -- ) ." +" ;

' ask-plain is ask
' tell-right is tell

: answer ( -- addr u ) answer-buf 80 accept answer-buf swap ;
: same? ( a$ b$ -- flag ) str= ;
: right ( -- ) 1 score +! tell ;
: wrong ( text$ -- ) ." No, it is " type cr ;

: question ( text$ answer$ -- )
  2>r 1 asked +! ask
  answer 2r@ same? if right else 2r@ wrong then
  2r> 2drop ;

: percent ( -- n ) score @ 100 * asked @ 1 max / ;

: grade ( n -- )
  dup 90 > if drop ." excellent" exit then
  dup 60 > if drop ." good" exit then
  30 > if ." fair" else ." practise" then ;

: loud ( -- ) ['] ask-loud is ask ;
: short ( -- ) ['] tell-short is tell ;

: round ( -- )
  s" Capital of France" s" Paris" question
  s" Capital of Peru" s" Lima" question
  s" Capital of Mali" s" Bamako" question ;

: result ( -- )
  ." You know " score @ . ." of " asked @ . cr
  percent grade cr ;

: play ( -- ) 0 score ! 0 asked ! round result ;

loud short
play
bye
