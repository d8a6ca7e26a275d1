# expect: protocol_violation result_records=0
import os

os._exit(0)
