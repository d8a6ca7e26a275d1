# expect: exited_nonzero exit_code=1 | run: program=script exec=yes
import os

RECORD = b'{"status":"returned","values":{},"missing":[],"exit_code":0}'
HEAD = b'{"type":"result","last":true}'
os.write(3, len(HEAD).to_bytes(4, "big") + len(RECORD).to_bytes(4, "big") + HEAD + RECORD)
os._exit(1)
