"""Keys and idle containers for the pool's decisions."""

from __future__ import annotations

from assayd.sandbox.pool_decisions import IdleContainer, PoolKey, intern_key

MIB = 2**20


def key(image: str = "python", memory_mb: int = 100) -> PoolKey:
    made = PoolKey(
        image=image,
        image_digest="sha256:1",
        memory_bytes=memory_mb * MIB,
        pids=2,
        cpus=1.0,
        work_bytes=16 * MIB,
        work_files=1000,
        open_files=256,
        network="blocked",
        seccomp="{}",
    )
    return intern_key(made)


A, B = key(), key("adapter")


def idle(
    name: str,
    of: PoolKey = A,
    *,
    born_at: float = 0.0,
    memory_mb: int = 10,
    alive: bool = True,
    ahead: bool = True,
) -> IdleContainer:
    return IdleContainer(
        ulid=name, key=of, born_at=born_at, memory_bytes=memory_mb * MIB, alive=alive, ahead=ahead
    )
