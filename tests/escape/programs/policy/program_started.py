# expect: policy_violation | run: policy=default
import asyncio


def extract(path):
    async def start():
        return await asyncio.create_subprocess_exec("/usr/bin/python3.11", "-c", "pass")

    return {"escaped": [str(asyncio.run(start()))]}
