# expect: completed | run: program=script exec=yes
import os

os.write(3, b"\xff" * 64)
