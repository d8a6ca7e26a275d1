# expect: completed refused_events= | run: policy=default
# An event loop wakes itself through a pair of sockets.
import asyncio


async def add(one, two):
    await asyncio.sleep(0)
    return one + two


def extract(path):
    total = asyncio.run(add(1, 2))
    return {"escaped": [] if total == 3 else [total]}
