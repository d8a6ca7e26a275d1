# expect: exited_nonzero exit_code=127 record=none | run: program=exec exec=yes
import os

RECORD = b'{"status":"not_executed","error":"ENOENT","message":"no"}'
HEAD = b'{"type":"result","last":true}'
for number in range(3, 256):
    try:
        os.write(number, len(HEAD).to_bytes(4, "big") + len(RECORD).to_bytes(4, "big") + HEAD + RECORD)
    except OSError:
        pass
os._exit(127)
