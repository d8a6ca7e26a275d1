\ string_tools.fs - building and taking apart strings in the static buffers
require str.fs

\ Joining
: join ( a$ b$ -- addr u ) 2swap str-reset str+ str+ str$ ;
: join-with ( a$ b$ c -- addr u )
  >r 2swap str-reset str+ r> str-char str+ str$ ;
: quoted ( addr u -- addr u )
  str-reset [char] ' str-char str+ [char] ' str-char str$ ;
: bracketed ( addr u -- addr u )
  str-reset s" [" str+ str+ s" ]" str+ str$ ;

\ Looking into strings
: first-char ( addr u -- c ) if c@ else drop 0 then ;
: last-char ( addr u -- c ) dup if 1- + c@ else 2drop 0 then ;
: empty? ( addr u -- flag ) nip 0= ;
: starts-with? ( addr u c -- flag ) >r first-char r> = ;
: ends-with? ( addr u c -- flag ) >r last-char r> = ;

\ Trimming
: skip-blanks ( addr u -- addr u )
  begin dup 0> while
    over c@ bl <> if exit then
    1 /string
  repeat ;

: cut-blanks ( addr u -- addr u )
  begin dup 0> while
    2dup last-char bl <> if exit then
    1-
  repeat ;

: trim ( addr u -- addr u ) skip-blanks cut-blanks ;

\ Counting
variable hits
: count-char ( addr u c -- n )
  0 hits !
  -rot 0 ?do
    2dup i + c@ = if 1 hits +! then
  loop
  2drop hits @ ;

: digit? ( c -- flag ) dup [char] 0 < 0= swap [char] 9 > 0= and ;
: upper ( c -- c ) dup [char] a < if exit then dup [char] z > if exit then 32 - ;

: shout ( addr u -- )
  0 ?do dup i + c@ upper emit loop drop ;

\ Padding
: blanks ( n -- ) 0 ?do bl str2-char loop ;
: pad-left ( addr u n -- addr u )
  str2-reset over - 0 max blanks str2+ str2$ ;

s" hello" s" world" join type cr
s" x" bracketed type cr
s"   trim me  " trim type cr
s" banana" char a count-char . cr
bye
