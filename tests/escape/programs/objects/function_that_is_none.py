# expect: exited_nonzero record=NoFunction
extract = 5
