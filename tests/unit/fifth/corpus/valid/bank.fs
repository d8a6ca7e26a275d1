\ bank.fs - accounts in a table, with checks that abort
8 constant accounts
create balances accounts cells allot
variable log-lines

: account ( n -- addr )
  dup 0< over accounts < 0= or abort" no such account"
  cells balances + ;
: balance ( n -- cents ) account @ ;
: log ( text$ -- ) 1 log-lines +! type cr ;

: deposit ( cents n -- )
  over 0< abort" nothing to deposit"
  account +! s" deposit" log ;

: enough? ( cents n -- flag ) balance > 0= ;
: withdraw ( cents n -- )
  2dup enough? 0= abort" not enough"
  swap negate swap account +! s" withdrawal" log ;

: transfer ( cents from to -- )
  >r over swap withdraw r> deposit ;

: interest ( n percent -- )
  over balance * 100 / swap account +! ;

: .euros ( cents -- ) 100 /mod . [char] . emit . ;
: .account ( n -- ) ." account " dup . balance .euros cr ;
: .accounts ( -- ) accounts 0 do i balance if i .account then loop ;

: richest ( -- n )
  0 accounts 1 do
    dup balance i balance < if drop i then
  loop ;

: reset ( -- ) balances accounts cells erase 0 log-lines ! ;
: total ( -- cents ) 0 accounts 0 do i balance + loop ;

reset
10000 0 deposit
5000 1 deposit
2500 0 2 transfer
1 3 interest
.accounts
richest . total .euros cr
