\ A page with a list of books; the libraries are loaded, the words are Fifth's.
require lib/html.fs

: shelf-title ( -- addr u ) s" Books on the shelf" ;

: book ( title$ author$ -- )
  <li>
  2swap <strong> text </strong>
  s" , " text text
  </li>nl ;

: books ( -- )
  <ul>
  s" Emma" s" Jane Austen" book
  s" Effi Briest" s" Theodor Fontane" book
  </ul> ;

: page ( -- )
  shelf-title html-begin
  shelf-title h1.
  books
  html-end ;

html>stdout page
