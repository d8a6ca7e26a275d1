# expect: policy_violation refused~network | run: policy=default
import asyncio


def extract(path):
    async def connect():
        return await asyncio.open_connection("127.0.0.1", 80)

    return {"escaped": [str(asyncio.run(connect()))]}
