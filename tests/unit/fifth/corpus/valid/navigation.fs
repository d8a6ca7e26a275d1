\ navigation.fs - a site frame: sidebar, nav items, cards with headers, code samples
require lib/core.fs
require lib/ui.fs

: active s" overview" ;
: active? ( id$ -- flag ) active str= ;

: entry ( text$ id$ -- ) 2dup active? nav-item-js ;

: site-sidebar ( -- )
  sidebar-begin
  s" Guide" sidebar-section
  s" Overview" s" overview" entry
  s" Words" s" words" entry
  s" External" sidebar-section
  s" Manual" s" https://example.org/manual" false nav-item
  sidebar-end ;

: code-line ( text$ -- ) <code> text </code> <br/> ;

: sample-card ( title$ xt -- )
  >r card-begin card-header card-body-begin
  <pre> r> execute </pre>
  card-body-end card-end ;

: hello-sample ( -- )
  s" : hello ( -- ) .\ hi\ ;" code-line
  s" hello" code-line ;

: loop-sample ( -- )
  s" : stars ( n -- ) 0 ?do 42 emit loop ;" code-line ;

: samples ( -- )
  s" Hello" ['] hello-sample sample-card
  s" Loops" ['] loop-sample sample-card ;

: legend ( -- )
  <p>
  s" new" badge-primary
  s" stable" badge-success
  s" old" badge-warning
  s" removed" badge-danger
  </p>nl ;

: quotation ( who$ what$ -- )
  <blockquote> p. <em> text </em> </blockquote> ;

: overview ( -- )
  s" overview" true panel-begin
  s" Overview" h2. legend
  s" An old saying" s" Small words make large programs." quotation
  panel-end ;

: words-panel ( -- )
  s" words" false panel-begin
  s" Words" h2. samples
  panel-end ;

: picture ( -- ) s" a tree" s" /img/tree.png" img. nl ;

: site ( -- )
  s" Guide" html-head ui-css html-body
  dashboard-begin
  site-sidebar
  dashboard-main-begin overview words-panel picture dashboard-main-end
  dashboard-end
  ui-js html-end ;

html>stdout site
