"""Controls the program that runs a model (model_program.py): asks it, and restarts it when it ended,
hung or took too much memory. This module does not depend on MLServer.
"""
import asyncio
import collections
import contextlib
import dataclasses
import json
import pathlib
import signal
import socket
import subprocess
import sys
import typing

from frames import LENGTH, frame
from request import BUSY, FAILED, Refused

PROGRAM = pathlib.Path(__file__).resolve().parent / "model_program.py"
MOST_ANSWER_BYTES = 256 << 20
RESTARTS, RESTARTS_SECONDS = 5, 600


class ModelRefused(Exception):
    """Says in one line why a model is not served."""


class Ended(Exception):
    """Raised for a request without an answer; `is_guilty`: the process was working on this one."""

    def __init__(self, reason, is_guilty):
        super().__init__(reason)
        self.is_guilty = is_guilty


class Sent(typing.NamedTuple):
    """A request that waits for its answer."""
    answer: asyncio.Future
    images: int
    timeout: asyncio.Timeout
    seconds: int

    def wait_anew(self):
        with contextlib.suppress(RuntimeError):  # the timeout has expired
            self.timeout.reschedule(asyncio.get_running_loop().time() + self.seconds)


class Child:
    """One process of the program, from its start to its end."""

    def __init__(self, process, reader, writer):
        self._process, self._reader, self._writer = process, reader, writer
        self._sent = collections.deque()
        self._reason = None  # why it was killed
        self.has_ended = False
        self.description = None
        self._task = None

    @classmethod
    async def started(cls, settings, limits):
        """Starts the program. Raises ModelRefused."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, PROGRAM,
                   json.dumps(settings | {"limits": dataclasses.asdict(limits)})]
        with theirs:
            process = subprocess.Popen(command, stdin=theirs, stdout=2)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        child = cls(process, reader, writer)
        try:
            async with asyncio.timeout(limits.max_load_seconds):
                child.description = await child._message()
        except TimeoutError:
            await child.stop()
            raise ModelRefused(f"did not load in {limits.max_load_seconds} seconds (the limit is "
                               "max_load_seconds)") from None
        except (ConnectionError, EOFError, ValueError):
            raise ModelRefused(f"its process {await child._end()} while it loaded") from None
        if "problem" in child.description:
            await child.stop()
            raise ModelRefused(child.description["problem"])
        child._task = asyncio.create_task(child._receive())
        return child

    async def ask(self, elements, tiling, limits):
        """Returns the answer's message. Raises Ended."""
        answer = asyncio.get_running_loop().create_future()
        seconds = limits.max_image_seconds * (
            len(elements) + sum(sent.images for sent in self._sent))
        timeout = asyncio.timeout(seconds)
        self._sent.append(Sent(answer, len(elements), timeout, seconds))
        self._writer.writelines(frame({"tiling": tiling}, elements))
        try:
            async with timeout:
                return await asyncio.shield(answer)
        except TimeoutError:
            self._reason = f"took longer than {seconds} seconds (the limit is max_image_seconds)"
            self._process.kill()
            return await answer

    async def stop(self):
        await self._end()

    async def _message(self):
        [size] = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if size > MOST_ANSWER_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        return json.loads(await self._reader.readexactly(size))

    async def _receive(self):
        try:
            while True:
                message = await self._message()
                if "tiles_left" in message:  # the model is making progress
                    for sent in self._sent:
                        sent.wait_anew()
                else:
                    self._sent.popleft().answer.set_result(message)
        except (ConnectionError, EOFError, IndexError, ValueError):
            pass
        finally:
            self.has_ended = True
            reason = await self._end()
            for place, sent in enumerate(self._sent):
                sent.answer.set_exception(Ended(f"its process {reason}", is_guilty=place == 0))

    async def _end(self):
        """Ends the process and returns how it ended, in words."""
        self._writer.close()
        self._process.kill()
        code = await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        if self._reason:
            return self._reason
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class ModelProcess:
    """Runs the program, with as many requests at a time as keep it busy: a batch, and the next one."""

    def __init__(self, path, is_trusted, limits):
        self._settings = {"path": str(path), "is_trusted": is_trusted}
        self._limits = limits
        self._starting = asyncio.Lock()
        self._restarts = collections.deque(maxlen=RESTARTS)  # times of restarts
        self._child = None

    async def start(self):
        """Starts the program and returns the model's description: its kind, the names of its outputs, the
        runtime's provider, a warning or None. Raises ModelRefused."""
        self._child = await Child.started(self._settings, self._limits)
        self._turns = asyncio.Semaphore(1 + self._child.description["batch_images"])
        return self._child.description

    async def stop(self):
        child, self._child = self._child, None
        if child:
            await child.stop()

    async def ask(self, elements, tiling=None):
        """Returns the answer's outputs and the seconds that the model took for each image or tile.
        Raises Refused."""
        async with self._turns:  # in the order of arrival
            while True:
                child = await self._running()
                try:
                    answer = await child.ask(elements, tiling, self._limits)
                except Ended as ended:
                    if ended.is_guilty:
                        raise Refused(FAILED, f"the model failed: {ended}") from None
                    continue
                if "problem" in answer:
                    raise Refused(answer["status"], answer["problem"])
                return answer["outputs"], answer["seconds"]

    async def _running(self):
        async with self._starting:
            if not self._child:
                raise Refused(BUSY, "the model is being unloaded")
            if self._child.has_ended:
                now = asyncio.get_running_loop().time()
                if len(self._restarts) == RESTARTS and now < self._restarts[0] + RESTARTS_SECONDS:
                    raise Refused(BUSY, f"the model failed {RESTARTS} times in "
                                  f"{RESTARTS_SECONDS // 60} minutes; hint: see the server's log")
                self._restarts.append(now)
                try:
                    self._child = await Child.started(self._settings, self._limits)
                except ModelRefused as refused:
                    raise Refused(FAILED, f"the model does not start again: {refused}") from None
            return self._child
