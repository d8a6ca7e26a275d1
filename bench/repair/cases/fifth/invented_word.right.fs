: clamp ( n -- n ) 0 max 100 min ;

120 clamp . 40 clamp . cr
