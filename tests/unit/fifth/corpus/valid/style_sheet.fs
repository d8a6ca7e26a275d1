\ style_sheet.fs - a style sheet out of constants and rules
require html.fs

s" #1b4965" 2constant ink
s" #bee9e8" 2constant paper
s" 0.25rem" 2constant small
s" 1rem" 2constant medium

: prop ( value$ name$ -- ) raw s" :" raw raw s" ;" raw ;
: rule{ ( selector$ -- ) raw s" {" raw ;
: } ( -- ) s" }" rawln ;

: colours ( -- ) ink s" color" prop paper s" background" prop ;
: spaced ( -- ) medium s" padding" prop small s" margin" prop ;
: rounded ( -- ) small s" border-radius" prop ;
: bold ( -- ) s" bold" s" font-weight" prop ;

: px ( n -- ) n>str raw s" px" raw ;
: width ( n -- ) s" width:" raw px s" ;" raw ;
: sized ( n -- ) s" font-size:" raw px s" ;" raw ;

: body-rule ( -- ) s" body" rule{ colours 16 sized } ;
: card-rule ( -- ) s" .card" rule{ spaced rounded 320 width } ;
: head-rule ( -- ) s" h1,h2" rule{ bold 24 sized } ;

: column-rule ( n -- )
  s" .col-" raw dup n>str raw s" {" raw
  100 * 12 / s" width:" raw n>str raw s" %;" raw } ;
: columns ( -- ) 13 1 do i column-rule loop ;

: media ( n -- ) s" @media(max-width:" raw px s" ){" rawln ;
: narrow ( -- ) 600 media card-rule } ;

: sheet ( -- ) <style> body-rule card-rule head-rule columns narrow </style> ;

: demo-card ( n -- ) s" card" <div.> n>str h2. </div>nl ;
: demo ( -- ) s" Styles" html-head sheet html-body 4 1 do i demo-card loop html-end ;

html>stdout demo
