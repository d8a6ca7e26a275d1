"""Manages templates, one per image and list of modules in use, together with their clones.

This module decides which containers are cloned. If no template is available, the runtime starts the
container instead, and the reason is logged once. If a template misbehaves, it is ended with all of its
children, and a new template is started for the next container.

`compile_filter` compiles the shared seccomp profile with libseccomp to instructions for the kernel. A runtime
compiles the profile for the containers that it starts. Clones of a template get the filter from the daemon
instead, so that all containers have the same profile.

Source: seccomp_export_bpf(3), seccomp_rule_add(3); Open Container Initiative, runtime specification, seccomp.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import secrets
import socket
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import structlog

from assayd.aio import run_cleanup
from assayd.engines.oci import template as program
from assayd.engines.oci.config import (
    MAX_CHILDREN,
    build_clone_request,
    build_template_plan,
    build_template_spec,
    parse_seccomp_profile,
    read_program,
)
from assayd.engines.oci.container import OciContainer, find_process_differences
from assayd.engines.oci.images import StoredImage
from assayd.engines.oci.making import ContainerFactory, ContainerIds, ThreadRunner, timeout_error
from assayd.engines.oci.process import (
    ContainerProcess,
    ContainerStartError,
    LauncherConnection,
    PipeStream,
    create_pipes,
)
from assayd.errors import EngineError
from assayd.ports.engine import (
    LABEL_CONTAINER,
    LABEL_DAEMON,
    LABEL_EXECUTOR,
    LABEL_GENERATION,
    LABEL_POOL_KEY,
    ContainerSpec,
)

log = structlog.get_logger()

_INHERITED_LABELS = (LABEL_DAEMON, LABEL_GENERATION, LABEL_EXECUTOR)
"""The labels that a template has in common with its clones, so that the same reaper finds it."""

MAX_TEMPLATES = 8
"""Maximum live templates, including those that only wait for their last child."""
MIN_IDS = 2 * MAX_TEMPLATES * (1 + MAX_CHILDREN)
"""Minimum user ids for using templates: half of them remain for containers that the runtime starts."""
_MAX_CONSECUTIVE_FAILURES = 3
"""Consecutive failures after which a template is paused."""
PAUSE_S = 60.0
"""Seconds for which a failed template is paused; containers start without it."""
_MAX_DIAGNOSTIC_CHARS = 500

Key = tuple[str, str, tuple[str, ...], str, tuple[int, int, int]]


class Template:
    """A template, with its container, the socket to it, and the user ids of its children."""

    def __init__(self, container: OciContainer, control: LauncherConnection) -> None:
        self.container = container
        self.control = control
        self.children: dict[str, OciContainer] = {}
        self._free = deque(range(1, MAX_CHILDREN + 1))
        self._numbers: dict[str, str] = {}
        self._next_number = 1

    @property
    def gone(self) -> bool:
        """Return whether the template has exited."""
        return self.control.gone or not self.container.running

    @property
    def has_capacity(self) -> bool:
        """Return whether the template can clone another child."""
        return bool(self._free) and not self.gone

    def allocate_ids(self) -> ContainerIds:
        """Take the ids for a child, and return them. The most recently released ids are reused last."""
        number = self._free.popleft()
        return ContainerIds(first_uid=self.container.place.first_uid + number, clone_uid=number)

    async def clone(self, child: OciContainer, streams: Sequence[int]) -> ContainerProcess:
        """Clone the template as the first process of a container.

        The template identifies the child by a number that is used only once, because later children inherit
        the template's memory.

        Raises: ContainerStartError, if the template can't clone; EngineError ``engine.launcher``, if it died.
        """
        number, self._next_number = str(self._next_number), self._next_number + 1
        self._numbers[child.record.name] = number
        order = os.memfd_create("order", os.MFD_CLOEXEC)
        try:
            os.write(order, json.dumps(build_clone_request(child.spec, child.place)).encode())
            return await self.control.start(number, {"id": number}, [*streams, order, *child.handed])
        finally:
            os.close(order)

    def release(self, child: OciContainer) -> None:
        """Release the ids of a removed child."""
        self.children.pop(child.record.name, None)
        if (number := self._numbers.pop(child.record.name, None)) is not None:
            self.control.forget(number)
        self._free.append(child.place.clone_uid)

    def list_template_and_siblings(self, child: OciContainer) -> Mapping[str, OciContainer]:
        """Return the template and siblings of this child, whose namespaces the child must not share.

        This method is thread-safe.
        """
        others = [each for each in list(self.children.values()) if each is not child and each.running]
        return {"the template": self.container, **{each.record.name: each for each in others}}


class TemplatePool:
    """All templates of one engine."""

    def __init__(self, maker: ContainerFactory, threads: ThreadRunner) -> None:
        self._maker = maker
        self._threads = threads
        self._live: dict[Key, Template] = {}
        """Templates in use, in the order of their last use."""
        self._retired: list[Template] = []
        self._of: dict[str, Template] = {}
        self._failures: Counter[Key] = Counter()
        self._failed_at: dict[Key, float] = {}
        self._changing = asyncio.Lock()
        self.source = Path(program.__file__).read_bytes()
        """The template's program."""
        self.reason = ""
        self.distrusted = ""
        """The fault of the first clone that ended its template, or an empty string."""
        self.pause_s = PAUSE_S
        self.closed = False
        """Whether templates are no longer used."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the containers in which the templates run."""
        return frozenset(each.container.record.name for each in (*self._live.values(), *self._retired))

    def of(self, name: str) -> Template | None:
        """Return the template of a cloned container, or None if the runtime started the container."""
        return self._of.get(name)

    async def claim(self, spec: ContainerSpec, image: StoredImage) -> tuple[Template, ContainerIds] | None:
        """Return a template and ids for a new clone, or None if the runtime must start the container."""
        key = (spec.image, spec.image_digest, spec.preload, spec.seccomp, image.place)
        if self.closed or self._is_paused(key):
            return None
        async with self._changing:
            await self._end_idle(spec, image)
            template = self._live.pop(key, None)
            if template is None:
                template = await self._try_start_template(key, spec, image)
            if template is None:
                return None
            self._live[key] = template
        if not template.has_capacity:
            return None
        return template, template.allocate_ids()

    def _is_paused(self, key: Key) -> bool:
        """Return whether a template has failed so often and so recently that its use is paused."""
        return (
            self._failures[key] >= _MAX_CONSECUTIVE_FAILURES
            and monotonic() - self._failed_at[key] < self.pause_s
        )

    def _count_failure(self, key: Key, times: int = 1) -> None:
        self._failures[key] += times
        self._failed_at[key] = monotonic()

    def register_clone(self, template: Template, child: OciContainer) -> None:
        """Record that a planned container uses ids of a template."""
        template.children[child.record.name] = child
        self._of[child.record.name] = template

    async def clone(self, child: OciContainer, streams: Sequence[int]) -> None:
        """Clone a container's first process from its template.

        Raises: EngineError ``engine.start_failed``, ``engine.launcher`` or ``engine.timeout``, if cloning
        fails.
        """
        template = self._of[child.record.name]
        try:
            async with asyncio.timeout(self._threads.timeout_s):
                child.process = await template.clone(child, streams)
        except ContainerStartError as problem:
            message = f"a container couldn't be cloned: {os.strerror(int(str(problem)))}"
            raise EngineError("engine.start_failed", message, retryable=True) from problem
        except TimeoutError as problem:
            template.control.disconnect()
            raise timeout_error() from problem
        finally:
            child.close_template_fds()

    def trust(self, child: OciContainer) -> None:
        """Reset the failure count of a clone's template, because the clone matches the request."""
        template = self._of.get(child.record.name)
        for key, each in self._live.items():
            if each is template:
                self._failures.pop(key, None)

    def distrust(self, child: OciContainer, reason: str) -> None:
        """End a template with all of its children, because a child differs from the request."""
        if child.record.name in self._of:
            self.distrusted = self.distrusted or reason
        self.end_violating_template(child)

    def end_violating_template(self, child: OciContainer) -> None:
        """End the template of a container with all of its children, because it violates the protocol.

        Do nothing if the container isn't a clone.
        """
        if (template := self._of.get(child.record.name)) is not None:
            template.control.disconnect()

    async def release(self, child: OciContainer) -> None:
        """Release a container's share of its template. End a retired template after its last child."""
        template = self._of.pop(child.record.name, None)
        if template is None:
            return
        template.release(child)
        if template in self._retired and not template.children:
            async with self._changing:
                await self._end_retired()

    async def close(self, reason: str = "") -> None:
        """Stop using templates. End those without children now, and the others with their last child."""
        self.closed, self.reason = True, reason
        async with self._changing:
            self._retired += self._live.values()
            self._live.clear()
            await self._end_retired()

    async def _end_idle(self, spec: ContainerSpec, image: StoredImage) -> None:
        """Retire ended, surplus and outdated templates. End retired templates without children."""
        for key, template in list(self._live.items()):
            other = (key[1], key[4]) != (spec.image_digest, image.place)
            if template.gone or (key[0] == spec.image and other):
                self._retired.append(self._live.pop(key))
        while len(self._live) + len(self._retired) >= MAX_TEMPLATES and self._live:
            idle = next((key for key, each in self._live.items() if not each.children), None)
            if idle is None:
                break
            self._retired.append(self._live.pop(idle))
            await self._end_retired()
        await self._end_retired()

    async def _end_retired(self) -> None:
        for template in [each for each in self._retired if not each.children]:
            template.control.disconnect()
            with suppress(EngineError):  # A remaining container is listed, and the reaper tries again.
                await run_cleanup(self._end_container(template.container), timeout_s=self._threads.timeout_s)
            self._retired.remove(template)

    async def _end_container(self, container: OciContainer) -> None:
        await self._maker.end(container)
        await self._maker.remove_container(container)
        self._maker.ranges.release(container.place.first_uid)

    async def _try_start_template(self, key: Key, spec: ContainerSpec, image: StoredImage) -> Template | None:
        if len(self._live) + len(self._retired) >= MAX_TEMPLATES:
            return None
        try:
            read_program(image.arguments)
            return await self._start_template(key, spec, image)
        except EngineError as problem:
            self._count_failure(key, _MAX_CONSECUTIVE_FAILURES if problem.code == "engine.template" else 1)
            self.reason = f"{spec.image}: {problem.message}"
            log.warning("template.failed", image=spec.image, code=problem.code, problem=problem.message)
            return None

    async def _start_template(self, key: Key, spec: ContainerSpec, image: StoredImage) -> Template:
        """Start a template, send its plan, compare the template with the request, and return it.

        Raises: EngineError ``engine.template``, if there are too few user ids; ``engine.mismatch``, if it
        differs; or the error of a failed step.
        """
        host = await self._maker.get_host()
        if host.ids.count < MIN_IDS:
            few = f"templates need {MIN_IDS} user ids for containers, but the range has {host.ids.count}"
            raise EngineError("engine.template", few)
        kept = {name: spec.labels[name] for name in _INHERITED_LABELS if name in spec.labels}
        labels = {**kept, LABEL_CONTAINER: f"template{secrets.token_hex(8)}", LABEL_POOL_KEY: "template"}
        ids = ContainerIds(first_uid=self._maker.ranges.allocate(1 + MAX_CHILDREN), children=MAX_CHILDREN)
        container = self._maker.plan(build_template_spec(spec, labels), image, host, ids)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control = LauncherConnection(ours, "a template", partial(self._handle_loss, key))
        try:
            with theirs:
                await self._maker.create_container(container)
                await self._launch_template(container, theirs.fileno())
            await self._send_plan(container, control, ours)
        except BaseException:
            control.disconnect()
            with suppress(EngineError):  # A remaining container is listed, and the reaper tries again.
                await run_cleanup(self._end_container(container), timeout_s=self._threads.timeout_s)
            raise
        self.reason = ""
        log.info("template.started", image=spec.image, container=container.record.name)
        return Template(container, control)

    async def _launch_template(self, container: OciContainer, control: int) -> None:
        """Start a template with the runtime. The template's standard input is the socket."""
        ends, streams = create_pipes()
        container.stream = PipeStream(_ignore_output)
        try:
            await container.stream.connect(ends)
            await self._maker.launch_container(container, [control, *streams[1:]])
        finally:
            for descriptor in streams:
                os.close(descriptor)

    async def _send_plan(
        self, container: OciContainer, control: LauncherConnection, ours: socket.socket
    ) -> None:
        place = container.place
        system_calls = await self._threads.run(compile_filter, container.spec.seccomp, place.machine)
        told = json.dumps(build_template_plan(container.spec, place, system_calls)).encode()
        try:
            for message in (self.source, told):
                await asyncio.get_running_loop().sock_sendall(ours, message)
            async with asyncio.timeout(self._threads.timeout_s):
                await control.ready
        except (OSError, TimeoutError, EngineError) as problem:
            said = container.stream.diagnostics if container.stream is not None else b""
            text = said.decode("utf-8", "replace")[-_MAX_DIAGNOSTIC_CHARS:]
            log.error("template.ended_early", container=container.record.name, said=text)
            reason = f"the template didn't start: {problem or 'too late'}"
            raise EngineError("engine.launcher", reason, retryable=True) from problem
        folder = container.group.entries()[0].rpartition("/")[0]
        os.close(await self._maker.request_read_only_mount(container.record.name, folder))
        if container.process is None:
            raise EngineError("engine.launcher", "the template has no process", retryable=True)
        found = await self._threads.run(find_process_differences, container.process, container)
        if found:
            differs = "a template isn't as requested: " + "; ".join(found)
            raise EngineError("engine.mismatch", differs)

    def _handle_loss(self, key: Key) -> None:
        """Retire a template that has ended unexpectedly, and count the failure."""
        template = self._live.get(key)
        if template is not None and template.control.gone:
            del self._live[key]
            self._count_failure(key)
            self._retired.append(template)
            log.warning("template.lost", container=template.container.record.name)


async def _ignore_output() -> None:
    """Do nothing, because a template writes nothing to its standard output."""


_LIBRARY = "libseccomp.so.2"
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ACTION_CODES = {"SCMP_ACT_ALLOW": _ALLOW, "SCMP_ACT_ERRNO": _ERRNO}
_OPERATOR_CODES = {
    name: number for number, name in enumerate(("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"), start=1)
}
_INSTRUCTION_BYTES = 8
_UNKNOWN_SYSCALL = -1
_OPTIMIZE, _BINARY_TREE = 8, 2
_MAX_BYTES = 4096 * _INSTRUCTION_BYTES


class _ArgumentComparison(ctypes.Structure):
    """The C structure ``struct scmp_arg_cmp``."""

    _fields_ = [
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


@cache
def compile_filter(text: str, machine: str) -> bytes:
    """Return the profile as kernel instructions for this machine.

    Raises: EngineError ``engine.seccomp``, if libseccomp is missing or rejects the profile.
    """
    profile = parse_seccomp_profile(text, machine)
    library = _load_library()
    context = library.seccomp_init(_get_action_code(profile["defaultAction"], profile["defaultErrnoRet"]))
    if not context:
        raise _build_seccomp_error("start", -errno.ENOMEM)
    try:
        for rule in profile["syscalls"]:
            _add_rule(library, context, rule)
        # Without effect in versions before 2.5; the kernel loads the instructions faster.
        library.seccomp_attr_set(context, _OPTIMIZE, _BINARY_TREE)
        return _export_bpf(library, context)
    finally:
        library.seccomp_release(context)


def _add_rule(library: ctypes.CDLL, context: int, rule: Mapping[str, Any]) -> None:
    action = _get_action_code(rule["action"], rule.get("errnoRet", errno.EPERM))
    compared = _to_comparisons(rule.get("args", ()))
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        # Not a system call of this machine, or unknown to the library: the default action applies.
        if number == _UNKNOWN_SYSCALL:
            continue
        done = library.seccomp_rule_add_array(context, action, number, len(compared), compared)
        if done < 0:
            raise _build_seccomp_error(f"add {name}", done)


def _to_comparisons(conditions: Sequence[Mapping[str, Any]]) -> ctypes.Array[_ArgumentComparison]:
    return (_ArgumentComparison * len(conditions))(
        *(
            _ArgumentComparison(
                each["index"],
                _OPERATOR_CODES[each["op"].removeprefix("SCMP_CMP_")],
                each["value"],
                each.get("valueTwo", 0),
            )
            for each in conditions
        )
    )


def _export_bpf(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        done = library.seccomp_export_bpf(context, descriptor)
        if done < 0:
            raise _build_seccomp_error("export", done)
        made = os.pread(descriptor, _MAX_BYTES + 1, 0)
    finally:
        os.close(descriptor)
    if not made or len(made) > _MAX_BYTES or len(made) % _INSTRUCTION_BYTES:
        raise _build_seccomp_error("export", -errno.EMSGSIZE)
    return made


def _get_action_code(name: str, number: int) -> int:
    return _ACTION_CODES[name] | (number if name == "SCMP_ACT_ERRNO" else 0)


def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as problem:
        message = f"{_LIBRARY} isn't installed; install it (Debian: apt-get install libseccomp2)"
        raise EngineError("engine.seccomp", message) from problem
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


def _build_seccomp_error(what: str, result: int) -> EngineError:
    reason = os.strerror(-result)
    return EngineError("engine.seccomp", f"libseccomp could not {what} the seccomp filter: {reason}")
