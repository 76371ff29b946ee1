"""Gives the connections of uvicorn, MLServer's HTTP server, deadlines, and refuses requests before
MLServer sees them.

uvicorn has no deadlines: a client that sends a byte now and then, or goes on sending after it was
refused, would stay for ever. Importing this module adds them, for uvicorn on h11 as in
requirements.txt.
"""
import asyncio
import contextlib
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

import admission
from request import BAD, BUSY, Refused

# Longest time for which a refused body is still read or a refusal held back, and time by which a
# connection gives up later than an admission.
LINGER_S = 5
REFUSALS_PER_SECOND = 50
NOT_A_METHOD = 501  # HTTP
METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}


def lingering(receive, send):
    """Returns a `send` for an answer that does not wait for the body. Many clients read an answer only
    when they have sent everything, and would find the connection broken if it were closed at once."""
    async def send_first(message):
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await send(message | {"more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while (await receive()).get("more_body"):
                        pass
            message = {"type": "http.response.body", "body": b""}
        await send(message)
    return send_first


def watch(connection):
    """Resets the deadline when a request, or its body, begins to arrive; removes it when the request
    is complete."""
    cycle, sender = connection.cycle, connection.conn.their_state
    answered = cycle is not None and cycle.response_complete
    now = (cycle, sender, answered, connection.transport.is_closing())
    if now == connection.watched:
        return
    connection.watched = now
    if connection.deadline:
        connection.deadline.cancel()
        connection.deadline = None
    if sender in (h11.IDLE, h11.SEND_BODY) and not connection.transport.is_closing():
        refused = answered and sender is h11.SEND_BODY
        seconds = LINGER_S + (0 if refused else admission.longest_body_seconds())
        connection.deadline = connection.loop.call_later(seconds, connection.transport.close)


def watched(method):
    def with_deadline(connection, *arguments):
        method(connection, *arguments)
        watch(connection)
    return with_deadline


H11Protocol.watched = H11Protocol.deadline = None
for name in ("connection_made", "data_received", "on_response_complete", "connection_lost"):
    setattr(H11Protocol, name, watched(getattr(H11Protocol, name)))


def model_of(scope):
    """Returns the model that a request asks for an answer; None for any other request."""
    parts = scope["path"].split("/")  # /v2/models/NAME[/versions/V]/infer, or generate
    if scope["method"] == "POST" and len(parts) in (5, 7) and parts[1:3] == ["v2", "models"]:
        return parts[3]
    return None


async def refuse(refused, receive, send):
    body = json.dumps({"error": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refused.status == BUSY:  # each answer frees a place, so soon
        headers.append((b"retry-after", b"1"))
    send = lingering(receive, send)
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Pace:
    """Limits a rate to `per_second` in the long run, with as many at once after a quiet second."""

    def __init__(self, per_second):
        self._pause = 1 / per_second
        self._next = 0.0

    async def turn(self):
        now = asyncio.get_running_loop().time()
        self._next = max(self._next + self._pause, now - 1)
        await asyncio.sleep(min(max(0, self._next - now), LINGER_S))


def guard(count):
    """Keeps a flood of refused requests from delaying the others' answers. A request that is refused by
    its headers or for lack of a place never gets to MLServer, which takes many times as long as this;
    and all refusals go out at a limited pace: clients that ask again at once wait. `count` gets the
    model's name and the refusal."""
    run_asgi, pace = RequestResponseCycle.run_asgi, Pace(REFUSALS_PER_SECOND)

    async def run_asgi_guarded(cycle, app):
        async def guarded(scope, receive, send):
            async def paced(message):
                if message.get("status", 0) >= BAD:
                    await pace.turn()
                await send(message)

            asked = admission.admission_of(model_of(scope))
            try:
                if scope["method"] not in METHODS:  # metrics would keep its name for ever
                    raise Refused(NOT_A_METHOD, "method: is none of HTTP's")
                if asked.model:
                    asked.check({name.decode("latin-1"): value.decode("latin-1")
                                 for name, value in scope["headers"]})
            except Refused as refused:
                count(asked.model, refused)
                await refuse(refused, receive, paced)
            else:
                await app(scope, receive, paced)
        await run_asgi(cycle, guarded)

    RequestResponseCycle.run_asgi = run_asgi_guarded
