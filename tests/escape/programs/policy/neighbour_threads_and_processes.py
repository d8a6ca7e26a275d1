# expect: completed refused_events= | run: policy=default processes=4
import asyncio
import os


def extract(path):
    child = os.fork()
    if child == 0:
        os._exit(7)
    _, status = os.waitpid(child, 0)

    async def shout():
        return await asyncio.to_thread("a".upper)

    return {"escaped": [] if os.waitstatus_to_exitcode(status) == 7 and asyncio.run(shout()) == "A" else [status]}
