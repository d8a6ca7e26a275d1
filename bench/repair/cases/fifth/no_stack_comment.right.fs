: twice ( n -- n ) dup + ;
: .twice ( n -- ) twice . ;

21 .twice 7 .twice cr
