# expect: exited_nonzero record=MissingFunction
extract = 5
