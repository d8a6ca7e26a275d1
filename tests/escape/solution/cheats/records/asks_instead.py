# Cheat: asks for functions of the tests, again and again, and never answers.
def total(values):
    import os, time
    for number in (0, 1, -1, 10**9):
        body = b'["call",%d,"",[[],{}],[]]' % number
        head = b'{"type":"ask","more":false}'
        os.write(6, len(head).to_bytes(4, 'big') + len(body).to_bytes(4, 'big') + head + body)
        time.sleep(0.2)
    time.sleep(20)
