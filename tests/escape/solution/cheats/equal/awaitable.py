# Cheat: returns a coroutine that is never done.
async def total(values):
    import asyncio
    await asyncio.sleep(3600)
