\ Nothing is wrong with it on paper; it divides by what is there, and nothing is.
variable visitors
variable sum

: average ( -- n ) sum @ visitors @ / ;
: report ( -- ) ." average " average . cr ;

report
