# expect: output_limit killed_by~result | run: program=script exec=yes result_kb=64
import os

HEAD = b'{"type":"result","last":true}'
while True:
    os.write(3, len(HEAD).to_bytes(4, "big") + (2**16).to_bytes(4, "big") + HEAD + bytes(2**16))
