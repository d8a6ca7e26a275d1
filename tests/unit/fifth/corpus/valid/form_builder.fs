\ form_builder.fs - forms out of small words: fields, choices, buttons
require ~/fifth/lib/html.fs

: field-label ( text$ -- ) <label> text </label> ;
: text-input ( name$ hint$ -- )
  <input s" text" type= 2swap name= bl emit placeholder= input> nl ;
: hidden-input ( value$ name$ -- )
  <input s" hidden" type= name= value= input> nl ;

: labelled ( label$ name$ hint$ -- )
  s" field" <div.>
  2>r 2>r field-label 2r> 2r> text-input
  </div>nl ;

: choice ( text$ -- ) <option> text </option> ;
: choices-begin ( label$ -- ) field-label <select> ;
: choices-end ( -- ) </select> ;

: submit ( text$ -- ) s" primary" <button.> text </button> nl ;
: cancel ( text$ url$ -- ) <a href= s"  class='cancel'" raw a> text </a> nl ;

: big-text ( label$ -- ) field-label <textarea> </textarea> nl ;

: countries ( -- )
  s" Country" choices-begin
  s" Norway" choice
  s" Chile" choice
  s" Japan" choice
  choices-end ;

: stars ( n -- )
  0 ?do s" star" <span.> s" *" text </span> loop ;

: space-text ( -- ) s"  " raw ;

: rating-row ( n -- )
  <li> dup stars space-text n>str text </li>nl ;

: ratings ( -- ) <ol> 6 1 do i rating-row loop </ol> ;

: section-title ( text$ -- ) s" form-section" <section.> h2. ;
: section-end ( -- ) </section> ;

: personal ( -- )
  s" About you" section-title
  s" Name" s" name" s" as on your passport" labelled
  s" E-mail" s" mail" s" you@example.org" labelled
  countries
  section-end ;

: remarks ( -- )
  s" Anything else" section-title
  s" Your remarks" big-text
  ratings
  section-end ;

: the-form ( -- )
  <form>
  s" 42" s" form-id" hidden-input
  personal remarks
  s" Send" submit
  s" Never mind" s" /" cancel
  </form> ;

: form-page ( -- )
  s" Form & fields" html-begin
  s" Tell us" h1. the-form
  html-end ;

html>stdout
form-page
