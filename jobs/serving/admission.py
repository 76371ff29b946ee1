"""Limits the requests that a server accepts, and the memory that they hold together. MLServer, which
has no limit of its own, reads and parses a whole body before a model is asked, and lets any number of
requests wait. This module does not depend on MLServer.
"""
import asyncio
import contextlib
import io
import json
import os
import reprlib

from request import BUSY, FEWER, TOO_LARGE, Limits, Refused, check_values

TOO_SLOW, NO_LENGTH, OTHER_TYPE = 408, 411, 415  # HTTP
JSON = "application/json"
LATER = "hint: send it again in a second"


def check_headers(headers, limits):
    """Refuses a request by its HTTP headers, before any of its body is read."""
    if "transfer-encoding" in headers:
        raise Refused(NO_LENGTH, "body: no Content-Length")
    length = int(headers.get("content-length", 0))
    if length > limits.max_body_bytes:
        raise Refused(TOO_LARGE,
                      f"body: {length} bytes (the limit is {limits.max_body_bytes}); {FEWER}")
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":  # the size is known only after unpacking
        raise Refused(OTHER_TYPE, f"body: Content-Encoding {reprlib.repr(encoding)} (want none)")
    kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if length and kind != JSON:  # for example the JPEG itself, or a form
        raise Refused(OTHER_TYPE, f"body: Content-Type {reprlib.repr(kind)} (want {JSON}); hint: send "
                      "a JPEG as base64 in the data of a tensor")


class Admission:
    """The requests for one model. Used on the server's event loop alone, so it needs no lock.

    A request gets its place when its body is complete: slow senders do not block the model. The bodies
    that are arriving may be as large in all as the bodies of all places.
    """

    def __init__(self, limits, model=""):
        self.limits = limits
        self.model = model  # its name, for metrics
        self.requests = 0  # waiting or being answered
        self.arriving_bytes = 0

    def _check_place(self):
        if self.requests == self.limits.max_requests:
            raise Refused(BUSY, f"busy: {self.requests} requests wait (the limit); {LATER}")

    def check(self, headers):
        """Refuses a request by its headers, or because all places are taken."""
        check_headers(headers, self.limits)
        self._check_place()

    @contextlib.contextmanager
    def place(self):
        """Holds a place from a complete request to its answer."""
        self._check_place()
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    async def body(self, headers, chunks):
        """Returns a request's body; refuses it before reading if possible."""
        self.check(headers)
        most = self.limits.max_requests * self.limits.max_body_bytes
        body = io.BytesIO()  # a list of the chunks could take 40 times their size
        try:
            async with asyncio.timeout(self.limits.max_body_seconds):
                async for chunk in chunks:
                    if self.arriving_bytes + len(chunk) > most:
                        raise Refused(BUSY, f"busy: bodies of {self.arriving_bytes} bytes arrive "
                                      f"(the limit is {most}); {LATER}")
                    self.arriving_bytes += body.write(chunk)
        except TimeoutError:
            raise Refused(TOO_SLOW, f"body: {body.tell()} bytes in {self.limits.max_body_seconds} "
                          "seconds, and not all of it (the limit)") from None
        finally:
            self.arriving_bytes -= body.tell()
        content = body.getvalue()
        check_values(sum(map(content.count, (b",", b"[", b"{"))), self.limits)
        return content


# By the model's name, for the HTTP server. Not in the runtimes' module, which MLServer executes again for
# every model.
ADMISSION_OF_MODEL = {}
# For paths that name none of these models: the limits that MLServer gives every model.
ADMISSION_OF_OTHERS = Admission(
    Limits.of_settings(json.loads(os.environ.get("MLSERVER_MODEL_EXTRA") or "{}")))


def admission_of(model):
    return ADMISSION_OF_MODEL.get(model, ADMISSION_OF_OTHERS)


def longest_body_seconds():
    """Returns the longest time that any model allows for a body."""
    return max(admission.limits.max_body_seconds
               for admission in (ADMISSION_OF_OTHERS, *ADMISSION_OF_MODEL.values()))
