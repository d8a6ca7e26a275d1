"""Runs inside a container: uses the standard library at large, one stop after the other.

Prints a JSON object: stop -> "ok" or the exception.
"""

import asyncio
import concurrent.futures
import datetime
import fcntl
import hashlib
import json
import mmap
import multiprocessing
import os
import pathlib
import resource
import secrets
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zoneinfo

WORK = "/sandbox"


def visit_threads() -> None:
    seen: list[int] = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(abs, seen)) == 10


def visit_sqlite3() -> None:
    for place in (":memory:", f"{WORK}/a.db"):
        with sqlite3.connect(place) as connection:
            connection.execute("pragma journal_mode = wal")
            connection.execute("create table t (a)")
            connection.execute("insert into t values (1)")
            assert connection.execute("select a from t").fetchall() == [(1,)]
        connection.close()


def visit_asyncio() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(3))
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"abc")
        assert await reader.read() == b"abc"
        writer.close()
        server.close()
        assert await asyncio.to_thread(abs, -1) == 1

    asyncio.run(main())


def visit_sockets() -> None:
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [0])
    assert socket.recv_fds(right, 1, 1)[0] == b"x"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unix:
        unix.bind(f"{WORK}/unix")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        datagram.bind(("127.0.0.1", 0))
        datagram.sendto(b"x", datagram.getsockname())
        assert datagram.recvfrom(1)[0] == b"x"
    assert socket.getaddrinfo("127.0.0.1", 80)


def visit_files() -> None:
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        folder = pathlib.Path(name)
        file = folder / "a"
        file.write_bytes(b"x" * 100_000)
        shutil.copy2(file, folder / "b")
        (folder / "link").symlink_to(file)
        (folder / "hard").hardlink_to(file)
        os.mkfifo(folder / "pipe")
        file.chmod(0o600)
        os.chown(file, os.getuid(), os.getgid())
        os.utime(file)
        os.truncate(file, 3)
        file.rename(folder / "c")
        assert {each.name for each in os.scandir(folder)} == {"b", "c", "link", "hard", "pipe"}
        assert os.statvfs(folder).f_bsize
    with tempfile.NamedTemporaryFile(dir=WORK) as temporary:
        os.posix_fallocate(temporary.fileno(), 0, 100)
        os.fsync(temporary.fileno())
        fcntl.flock(temporary, fcntl.LOCK_EX)
        fcntl.lockf(temporary, fcntl.LOCK_EX)


def visit_copying_in_the_kernel() -> None:
    source = os.open(f"{WORK}/source", os.O_RDWR | os.O_CREAT)
    target = os.open(f"{WORK}/target", os.O_RDWR | os.O_CREAT)
    os.write(source, b"abc")
    left, _right = socket.socketpair()
    assert os.sendfile(left.fileno(), source, 0, 3) == 3
    assert os.copy_file_range(source, target, 3, 0, 0) == 3


def visit_hashing_and_randomness() -> None:
    assert hashlib.sha256(b"x").hexdigest()
    assert hashlib.scrypt(b"a", salt=b"b", n=2, r=8, p=1)
    assert secrets.token_hex()
    assert uuid.uuid1() != uuid.uuid4()
    ssl.create_default_context()


def visit_time() -> None:
    assert datetime.datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).tzinfo
    time.sleep(0.001)
    assert time.process_time() >= 0
    assert time.thread_time() >= 0


def visit_mmap() -> None:
    with mmap.mmap(-1, 8192) as memory:
        memory.write(b"x")
        memory.madvise(mmap.MADV_DONTNEED)
        memory.resize(4096)
    with pathlib.Path(WORK, "mapped").open("wb+") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096) as memory:
            memory[0] = 1
            memory.flush()


def visit_select_and_epoll() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    with select.epoll() as epoll:
        epoll.register(reader, select.EPOLLIN)
        assert epoll.poll(1)
    poll = select.poll()
    poll.register(reader)
    assert poll.poll(0)
    assert select.select([reader], [], [], 0)[0] == [reader]
    os.set_inheritable(reader, True)
    os.set_blocking(reader, False)
    os.close(os.eventfd(1))


def visit_signals() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _frame: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.sigtimedwait([signal.SIGUSR1], 1)
    assert seen == [signal.SIGALRM]


def visit_fork() -> None:
    child = os.fork()
    if not child:
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.nice(1)
    assert os.sched_getaffinity(0)


def visit_subprocess() -> None:
    argv = [sys.executable, "-I", "-S", "-c", "print(2)"]
    assert subprocess.run(argv, stdout=subprocess.PIPE, timeout=20, check=True).stdout == b"2\n"
    subprocess.run(argv, stdout=subprocess.DEVNULL, close_fds=False, start_new_session=True, check=True)


def visit_multiprocessing() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=queue.put, args=(1,))
    process.start()
    assert queue.get(timeout=20) == 1
    process.join()


def visit_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def visited(stop: str) -> str:
    try:
        globals()[stop]()
    except Exception as problem:  # noqa: BLE001  every stop is reported, whatever it raised
        return repr(problem)
    return "ok"


if __name__ == "__main__":
    stops = [name for name in list(globals()) if name.startswith("visit_")]
    print(json.dumps({stop: visited(stop) for stop in stops}))
