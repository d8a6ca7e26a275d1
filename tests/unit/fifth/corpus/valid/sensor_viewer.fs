\ sensor_viewer.fs - a page with the sensors of a building, out of a database

require ~/fifth/lib/core.fs
require ~/fifth/lib/ui.fs

s" /tmp/sensors.html" 2constant page-file
: sensors-db s" data/sensors.db" ;
: max-rows 50 ;

: page-style ( -- )
  <style>
  s" body" s" font-family:sans-serif;margin:2rem" css-rule
  s" .low" s" color:#b00" css-rule
  </style>
  ui-css ;

: level-class ( n -- addr u )
  10 < if s" badge low" else s" badge" then ;

: sensor-row ( row$ -- )
  <tr>
    <td> 2dup 0 sql-field text 2drop </td>
    <td> 2dup 1 sql-field s" bg-info" badge 2drop </td>
    2dup 2 sql-field td. 2drop
  2drop </tr> ;

: sensors ( -- )
  s" Sensors" h2.
  table-begin
    <thead> <tr> s" Name" th. s" Kind" th. s" Level" th. </tr> </thead>
    <tbody>
    sensors-db s" SELECT name, kind, level FROM sensors ORDER BY name" sql-exec
    sql-open
    begin sql-row? while
      dup 0> if sensor-row else 2drop then
    repeat 2drop
    sql-close
    </tbody>
  table-end ;

: count-card ( sql$ label$ -- )
  2>r sensors-db 2swap sql-count 2r> stat-card-n ;

: stats ( -- )
  grid-3
    s" SELECT COUNT(*) FROM sensors" s" Sensors" count-card
    s" SELECT COUNT(*) FROM rooms" s" Rooms" count-card
  grid-end ;

: generate ( -- )
  page-file w/o create-file throw html>file
  s" Sensors" html-head page-style html-body
  dashboard-begin
    s" Sensors" s" All rooms" dashboard-header
    dashboard-main-begin stats sensors dashboard-main-end
  dashboard-end
  ui-js html-end
  html-fid @ close-file throw ;

: main ( -- )
  ." Writing..." cr
  generate
  page-file open-file-cmd ;

main bye
