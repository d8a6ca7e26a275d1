\ todo_board.fs - tasks out of a database as a board with three columns
require ~/fifth/lib/core.fs
require ~/fifth/lib/ui.fs

: tasks-db ( -- addr u ) s" tasks.db" ;
: board-file ( -- addr u ) s" /tmp/board.html" ;

: state-class ( state -- class$ )
  case
    0 of s" bg-info" endof
    1 of s" bg-warning" endof
    2 of s" bg-success" endof
    drop s" bg-danger" 0
  endcase ;

: state-title ( state -- title$ )
  dup 0= if drop s" Open" exit then
  1 = if s" In work" else s" Done" then ;

: task-query ( state -- )
  str2-reset
  s" SELECT id, title, owner FROM tasks WHERE state = " str2+
  n>str str2+
  s"  ORDER BY id" str2+
  tasks-db sql-exec2 ;

: task-card ( row$ -- )
  card-begin
    2dup 1 sql-field h4. 2drop
    2dup 2 sql-field badge-primary 2drop
    2drop
  card-end ;

: column-head ( state -- )
  s" column-head" <div.>
  state-title text
  </div>nl ;

: column ( state -- )
  s" column" <div.>nl
  dup column-head
  task-query
  sql-open
  begin sql-row? while
    dup 0> if task-card else 2drop then
  repeat 2drop
  sql-close
  </div>nl ;

: board ( -- )
  grid-3
  3 0 do i column loop
  grid-end ;

: board-css ( -- )
  <style>
  s" .column" s" background:#eee;padding:1rem;border-radius:4px" css-rule
  s" .column-head" s" font-weight:bold" css-rule
  </style> ;

: open-output ( -- ) board-file w/o create-file throw html>file ;
: close-output ( -- ) html-fid @ close-file throw ;

: write-board ( -- )
  open-output
  s" Tasks" html-head ui-css board-css html-body
  s" Tasks" h1.
  board
  html-end
  close-output ;

write-board
." board written to " board-file type cr
bye
