# expect: out_of_memory exit_code=137 | run: program=exec exec=yes processes=6 memory_mb=64 open_files=128
# What waits in sockets is the kernel's, so no process of the guest's looks large; once it is another program, each may
# lower its score to where the engine set it. Then the runner is the largest, and the run ends with it. That is a lack
# of memory, not trouble of ours.
import os
import socket

with open("/proc/self/oom_score_adj", "w") as score:
    score.write("0")
try:
    with open("fill", "wb", buffering=0) as file:
        while file.write(bytes(2**20)):
            pass
except OSError:
    pass
for _ in range(5):
    if os.fork() == 0:
        break
held = []
while True:
    try:
        held.append(socket.socketpair())
    except OSError:
        continue
    for end in held[-1]:
        end.setblocking(False)
        try:
            while end.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
