# expect: exited_nonzero verdict=failed rules~contract.not_callable | run: program=module as=adapter
# By its text it has all methods; what is registered in the end has not.
OpenMeteo.get_schema = None
