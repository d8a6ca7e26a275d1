\ book_list.fs - a plain list of books as HTML, small words only
require lib/html.fs

: title-text ( -- addr u ) s" Books on the shelf" ;
: list-class s" books" ;

: head ( -- ) title-text html-head s" body{margin:3rem}" css html-body ;
: foot ( -- ) <footer> s" End of the list" text </footer> html-end ;

: author ( name$ -- ) s" author" <span.> text </span> ;
: comma ( -- ) s" , " text ;
: year ( n -- ) n>str text ;

: book ( title$ name$ year -- )
  >r 2>r
  <li> <strong> text </strong>
  comma 2r> author
  comma r> year
  </li>nl ;

: books ( -- )
  list-class <ul.>
  s" Emma" s" Jane Austen" 1815 book
  s" Effi Briest" s" Theodor Fontane" 1895 book
  s" Anna Karenina" s" Leo Tolstoy" 1878 book
  </ul> ;

: rule-line ( -- ) s" <hr>" raw nl ;

: section-of ( title$ xt -- )
  >r <section> h2. r> execute </section> ;

: note ( text$ -- ) s" note" <p.> text </p>nl ;

: page ( -- )
  head
  title-text h1.
  s" Three novels" ['] books section-of
  rule-line
  s" Years are those of the first edition & may differ." note
  foot ;

html>stdout
page
bye
