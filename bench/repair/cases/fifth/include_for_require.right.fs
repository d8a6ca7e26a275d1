require lib/html.fs

: greeting ( name$ -- )
  <p> s" Hello, " text text </p> ;
