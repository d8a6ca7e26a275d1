# expect: protocol_violation result_records=0 exit_code=0
import os


def extract(path):
    os._exit(0)
