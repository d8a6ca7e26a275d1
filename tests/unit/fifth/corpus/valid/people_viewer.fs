\ people_viewer.fs - people of a database, with a detail page for one
require ~/fifth/lib/core.fs
require ~/fifth/lib/ui.fs

: db ( -- addr u ) s" people.db" ;
: all-people ( -- addr u ) s" SELECT id, name, town FROM people ORDER BY name" ;

: detail-url ( addr u -- url-addr url-u )
  str2-reset s" person-" str2+ str2+ s" .html" str2+ str2$ ;

: person-row ( row$ -- )
  <tr>
  0 sql-field <td> text </td>
  1 sql-field <td> text </td>
  2 sql-field <td> text </td>
  2drop
  </tr> ;

: people-table ( -- )
  <table>
  <thead> <tr> <th> s" Id" text </th> <th> s" Name" text </th> <th> s" Town" text </th> </tr> </thead>
  <tbody> db all-people ['] person-row sql-each </tbody>
  </table> ;

: how-many ( -- n ) db s" SELECT count(*) FROM people" sql-count ;
: stats ( -- ) grid-3 how-many s" people" stat-card-n grid-end ;

: page ( -- )
  s" People" html-head ui-css html-body
  dashboard-begin
  s" People" s" everybody we know" dashboard-header
  dashboard-main-begin stats people-table dashboard-main-end
  dashboard-end
  html-end ;

html>stdout page
