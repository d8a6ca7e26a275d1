# Cheat: sends headers of other forms: no type, a list as type, a huge length.
def total(values):
    import os
    which = len(values)
    head = (b'{}', b'{"type":[],"more":false}', b'{"type":"answer","more":"x"}', b'[]')[which % 4]
    os.write(6, len(head).to_bytes(4, 'big') + (2**31).to_bytes(4, 'big') + head)
    os.write(6, len(head).to_bytes(4, 'big') + bytes(4) + head)
    return -1
