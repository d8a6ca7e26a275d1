\ page_template.fs - a layout with slots, and fragments that fill them
require ~/fifth/lib/template.fs

slot: @title
slot: @menu
slot: @content
slot: @aside

: layout ( -- )
  s" A page out of parts" html-head
  html-body
  <header> @title </header>
  <nav> @menu </nav>
  <main> @content </main>
  <aside> @aside </aside>
  html-end ;

fragment: site-title ( -- ) s" The Garden" h1. ;

fragment: menu-link ( text$ url$ -- )
  <li> a. </li>nl ;

fragment: site-menu ( -- )
  <ul>
  s" Home" s" /" menu-link
  s" Plants" s" /plants" menu-link
  s" Tools" s" /tools" menu-link
  </ul> ;

: plant ( name$ month$ -- )
  <article>
  2swap h3.
  <p> s" Sow in " text text </p>
  </article> ;

: plants ( -- )
  s" Beans" s" May" plant
  s" Kale" s" June" plant ;

: hints ( -- ) s" Water in the evening." p. ;

: in-season? ( month -- flag ) dup 3 > swap 10 < and ;
: season-note ( month -- )
  in-season? s" The beds are open." ?text ;
: stock-note ( flag -- ) ['] hints ?render ;

' site-title ->slot @title
' site-menu ->slot @menu
' plants ->slot @content
' hints ->slot @aside

html>stdout
layout
6 season-note
true stock-note

: captured ( -- addr u ) begin-capture plants end-capture ;
captured nip . cr
