\ bits_and_bases.fs - hexadecimal, masks, shifts, characters
hex
ff constant low-byte
ff00 constant high-byte
7f constant ascii-mask
dead constant marker
decimal

: low ( n -- n ) low-byte and ;
: high ( n -- n ) high-byte and 8 rshift ;
: swap-bytes ( n -- n ) dup low 8 lshift swap high or ;
: bit ( n -- mask ) 1 swap lshift ;
: set-bit ( x n -- x ) bit or ;
: clear-bit ( x n -- x ) bit invert and ;
: test-bit ( x n -- flag ) bit and 0= 0= ;
: toggle-bit ( x n -- x ) bit xor ;

: count-bits ( x -- n )
  0 swap
  begin dup while
    dup 1 and rot + swap
    1 rshift
  repeat drop ;

: .hex ( n -- ) hex u. decimal ;
: .binary ( n -- ) 2 base ! u. decimal ;

: hex-digit ( n -- c ) dup 10 < if [char] 0 else 10 - [char] a then + ;
: .byte ( n -- ) dup 4 rshift hex-digit emit 15 and hex-digit emit ;
: printable ( c -- c ) dup bl < over 126 > or if drop [char] . then ;

: dump-line ( addr -- )
  8 0 do dup i + c@ .byte space loop
  8 0 do dup i + c@ printable emit loop
  drop cr ;
: dump-memory ( addr n -- ) 8 / 0 ?do dup i 8 * + dump-line loop drop ;

: parity ( x -- flag ) count-bits 1 and 0= ;
: checksum ( addr u -- n ) 0 -rot 0 ?do dup i + c@ rot + 255 and swap loop drop ;

$1234 swap-bytes .hex cr
%1011 count-bits . cr
0x10 2 set-bit 4 clear-bit . cr
marker .hex cr
s" checksum me" checksum . cr
low-byte 3 test-bit . cr
