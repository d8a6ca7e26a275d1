\ wizard_form.fs - a form in steps, each step a word in a table
require ~/fifth/lib/core.fs

: input-row ( name$ label$ -- )
  <p>
  <label> text </label>
  <input s" text" type= name= />
  </p> ;
: choice ( text$ -- ) <option> text </option> ;

: step-name ( -- ) s" name" s" Your name" input-row s" mail" s" Your mail" input-row ;
: step-size ( -- )
  <select> s" small" choice s" medium" choice s" large" choice </select> ;
: step-done ( -- ) <button> s" Send" text </button> ;

create steps ' step-name , ' step-size , ' step-done ,
3 constant step-count

: step ( n -- ) cells steps + @ execute ;
: heading ( n -- ) <h2> s" Step " text 1+ n>str text </h2> ;
: all-steps ( -- )
  <form>
  step-count 0 do i heading i step loop
  </form> ;

: page ( -- )
  s" Order" html-head html-body
  s" Order" h1.
  all-steps
  html-end ;

: write-page ( -- )
  s" order.html" w/o create-file throw html>file
  page
  html-fid @ close-file throw ;

html>stdout page
