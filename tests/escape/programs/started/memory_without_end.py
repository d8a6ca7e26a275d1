# expect: out_of_memory oom_kills | run: program=exec exec=yes
held = []
while True:
    held.append(bytearray(2**20))
