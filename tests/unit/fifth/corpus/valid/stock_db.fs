\ stock_db.fs - a shop's stock: queries with sql-each, numbers, a table and a warning list
require ~/fifth/lib/core.fs
require ~/fifth/lib/sql.fs
require ~/fifth/lib/ui.fs

: shop-db ( -- addr u ) s" shop.db" ;
: low-mark ( -- n ) 5 ;

variable low-count

: row-name ( row$ -- row$ name$ ) 0 sql-field ;
: row-stock ( row$ -- row$ stock$ ) 1 sql-field ;

: number ( addr u -- n ) s>number? if drop else 2drop 0 then ;

: mark-low ( n -- )
  low-mark < if 1 low-count +! s" low" badge-danger else s" ok" badge-success then ;

: item-row ( row$ -- )
  <tr>
  row-name td.
  row-stock 2dup td.
  number <td> mark-low </td>
  2drop
  </tr> ;

: stock-table ( -- )
  table-begin
  table-head-begin s" Item" th. s" Stock" th. s" State" th. table-head-end
  table-body-begin
  shop-db s" SELECT name, stock FROM items ORDER BY stock" ['] item-row sql-each
  table-body-end
  table-end ;

: list-item ( row$ -- ) row-name li. 2drop ;

: low-list ( -- )
  <ul>
  shop-db s" SELECT name, stock FROM items WHERE stock < 5" ['] list-item sql-each
  </ul> ;

: items-total ( -- n ) shop-db s" items" sql-table-count ;

: cards ( -- )
  grid-2
  items-total s" Items" stat-card-n
  low-count @ s" Low" stat-card-n
  grid-end ;

: tabs ( -- )
  tabs-begin
  s" Stock" s" stock" true tab
  s" Low" s" low" false tab
  tabs-end ;

: panels ( -- )
  s" stock" true panel-begin stock-table panel-end
  s" low" false panel-begin low-list panel-end ;

: shop-page ( -- )
  s" Stock" html-head ui-css html-body
  dashboard-begin
  s" Stock" s" what is left" dashboard-header
  dashboard-main-begin tabs panels cards dashboard-main-end
  dashboard-end
  ui-js html-end ;

html>stdout
shop-page
bye
