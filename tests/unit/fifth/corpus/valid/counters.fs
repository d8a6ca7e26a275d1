\ counters.fs - defining words with create and does>, tables in memory
: counter: ( "name" -- ) create 0 , does> dup @ 1+ dup rot ! ;
: array: ( n "name" -- ) create cells allot does> swap cells + ;
: limited: ( max "name" -- ) create , does> @ min ;
: flag: ( n "name" -- ) create , does> @ and 0= 0= ;

counter: ticket
counter: visitor
10 array: slots
100 limited: percent
1 flag: red?
2 flag: blue?

: clear-slots ( -- ) 10 0 do 0 i slots ! loop ;
: slot@ ( n -- x ) slots @ ;
: slot! ( x n -- ) slots ! ;
: slot+! ( x n -- ) slots +! ;
: fill-squares ( -- ) 10 0 do i dup * i slot! loop ;
: .slots ( -- ) 10 0 do i slot@ . loop cr ;

: sum-slots ( -- n ) 0 10 0 do i slot@ + loop ;
: biggest ( -- n ) 0 slot@ 10 1 do i slot@ max loop ;

: colours ( n -- )
  dup red? if ." red " then
  blue? if ." blue " then ;

create primes 2 , 3 , 5 , 7 , 11 , 13 ,
: primes# ( -- n ) 6 ;
: nth-prime ( n -- n ) cells primes + @ ;
: .primes ( -- ) primes# 0 do i nth-prime . loop ;

create vowels char a c, char e c, char i c, char o c, char u c,
: vowel? ( c -- flag )
  false swap
  5 0 do dup vowels i + c@ = if nip true swap then loop drop ;

clear-slots
fill-squares
.slots
sum-slots . biggest . cr
ticket drop ticket . cr
150 percent . cr
3 colours cr
.primes cr
bye
