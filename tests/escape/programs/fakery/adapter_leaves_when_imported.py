# expect: policy_violation verdict=failed rules~contract.import_failed static~forbidden.name | run: program=module as=adapter
import os

os._exit(0)
