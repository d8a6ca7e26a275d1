\ text_adventure.fs - a state machine with case, tables of xts, and two-cell constants
s" You are in a hall." 2constant hall-text
s" You are in a cellar; it is dark." 2constant cellar-text
s" You are in a garden." 2constant garden-text

0 constant hall
1 constant cellar
2 constant garden

variable place
variable lamp
variable moves
variable over?

: here? ( n -- flag ) place @ = ;
: go ( n -- ) place ! 1 moves +! ;
: lit? ( -- flag ) lamp @ ;
: take-lamp ( -- ) true lamp ! ." You take the lamp." cr ;

: look ( -- )
  place @ case
    hall of hall-text type endof
    cellar of cellar-text type endof
    garden of garden-text type endof
  endcase cr ;

: blocked ( -- ) ." You cannot go there." cr ;

: down ( -- )
  hall here? 0= if blocked exit then
  lit? if cellar go else ." Too dark." cr then ;
: up ( -- ) cellar here? if hall go else blocked then ;
: out ( -- ) hall here? if garden go else blocked then ;
: in ( -- ) garden here? if hall go else blocked then ;

: quit-game ( -- ) true over? ! ;

: command ( c -- )
  case
    [char] d of down endof
    [char] u of up endof
    [char] o of out endof
    [char] i of in endof
    [char] l of take-lamp endof
    [char] q of quit-game endof
    ." What?" cr
  endcase ;

: prompt ( -- c ) look ." > " key ;
: reset-game ( -- ) hall place ! false lamp ! 0 moves ! false over? ! ;
: farewell ( -- ) ." You made " moves @ . ." moves." cr ;

: game ( -- )
  reset-game
  begin prompt command over? @ until
  farewell ;

: demo ( -- )
  reset-game look take-lamp down look up out look farewell ;

demo
bye
