require lib/core.fs

: comment-row ( row$ -- )
  <tr> <td> 1 sql-field raw </td> </tr> 2drop ;
