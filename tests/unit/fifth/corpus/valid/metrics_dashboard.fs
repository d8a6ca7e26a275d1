\ metrics_dashboard.fs - numbers of a service, thresholds, a bar chart out of divs
require ~/fifth/lib/core.fs
require ~/fifth/lib/ui.fs

: metrics-db ( -- addr u ) s" metrics.db" ;
: out-file ( -- addr u ) s" /tmp/metrics.html" ;
90 constant critical
70 constant elevated

: level ( n -- class$ )
  dup critical > if drop s" bg-danger" exit then
  elevated > if s" bg-warning" else s" bg-success" then ;

: percent-text ( n -- addr u ) n>str str-reset str+ s" %" str+ str$ ;

: bar-style ( n -- )
  s"  style='width:" raw n>str raw s" %'" raw ;

: bar ( n label$ -- )
  s" bar-label" <div.> text </div>
  s" <div class='bar'" raw dup bar-style s" >" raw
  n>str text
  </div>nl ;

: metric ( sql$ -- n ) metrics-db 2swap sql-count ;

: cpu ( -- n ) s" SELECT value FROM samples WHERE kind = 1" metric ;
: memory ( -- n ) s" SELECT value FROM samples WHERE kind = 2" metric ;
: disk ( -- n ) s" SELECT value FROM samples WHERE kind = 3" metric ;

: state-badge ( n -- )
  dup >r n>str r> level badge ;

: gauge ( n label$ -- )
  card-begin
  2dup card-header
  2>r dup 2r> bar
  state-badge
  card-end ;

: gauges ( -- )
  grid-3
  cpu s" Processor" gauge
  memory s" Memory" gauge
  disk s" Disk" gauge
  grid-end ;

: event-row ( row$ -- )
  <tr>
  0 sql-field td.
  1 sql-field td-code.
  2drop
  </tr> ;

: events ( -- )
  s" Last events" h2.
  table-begin
  metrics-db s" SELECT time, text FROM events ORDER BY time DESC LIMIT 20" ['] event-row sql-each
  table-end ;

: chart-css ( -- )
  <style>
  s" .bar" s" background:#48c;color:#fff;height:1.2rem" css-rule
  s" .bar-label" s" font-size:0.8rem" css-rule
  </style> ;

: dashboard ( -- )
  s" Service" html-head ui-css chart-css html-body
  dashboard-begin
  s" Service" s" the last hour" dashboard-header
  dashboard-main-begin gauges events dashboard-main-end
  dashboard-end
  ui-js html-end ;

: to-file ( -- )
  out-file w/o create-file throw html>file
  dashboard
  html-fid @ close-file throw ;

to-file
out-file open-url
bye
