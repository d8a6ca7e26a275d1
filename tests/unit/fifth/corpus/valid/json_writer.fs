\ json_writer.fs - writes JSON with a string buffer; quotes come from s\"
require ~/fifth/lib/str.fs

variable first?

: q ( -- ) [char] " str-char ;
: {json ( -- ) str-reset [char] { str-char true first? ! ;
: json} ( -- addr u ) [char] } str-char str$ ;
: separate ( -- ) first? @ if false first? ! else s" , " str+ then ;

: escaped ( c -- )
  dup [char] " = if drop s\" \\\"" str+ exit then
  dup [char] \ = if drop s" \\" str+ exit then
  str-char ;
: json-text ( addr u -- )
  q 0 ?do dup i + c@ escaped loop drop q ;

: key ( name$ -- ) separate json-text s" : " str+ ;
: text-field ( value$ name$ -- ) key json-text ;
: number-field ( n name$ -- ) key n>str str+ ;
: flag-field ( flag name$ -- )
  key if s" true" else s" false" then str+ ;
: null-field ( name$ -- ) key s" null" str+ ;

: [json ( -- ) [char] [ str-char true first? ! ;
: json] ( -- ) [char] ] str-char ;
: element ( n -- ) separate n>str str+ ;

: person ( -- addr u )
  {json
  s" Ada" s" name" text-field
  36 s" age" number-field
  true s" active" flag-field
  s" note" null-field
  json} ;

: squares ( n -- addr u )
  str-reset [json
  0 ?do i i * element loop
  json] str$ ;

: greeting ( -- addr u )
  {json s\" say \"hi\"" s" text" text-field json} ;

person type cr
5 squares type cr
greeting type cr
s\" tab\there\n" type
bye
