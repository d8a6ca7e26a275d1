\ gallery.fs - a page of pictures with captions
require ~/fifth/lib/core.fs

: gallery-css ( -- )
  <style>
  s" body" s" font-family: sans-serif" css-rule
  s" figure" s" margin: 1em" css-rule
  </style> ;

: picture-name ( n -- addr u )
  str-reset
  s" pictures/" str+
  n>str str+
  s" .jpg" str+
  str$ ;

: picture ( n -- )
  <img picture-name src= />
  ;

: caption ( n -- ) s" caption" <p.> s" Picture " text n>str text </p> ;
: cell-of ( n -- ) <li> dup picture caption </li> ;
: pictures ( n -- ) <ul> 1+ 1 ?do i cell-of loop </ul> ;
: footer-line ( -- ) <footer> s" made with Fifth" text </footer> ;

: gallery ( n title$ -- )
  html-head gallery-css html-body
  pictures
  footer-line
  html-end ;

html>stdout
12 s" My pictures" gallery
