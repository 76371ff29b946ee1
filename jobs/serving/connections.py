"""How long the connections of uvicorn, MLServer's HTTP server, wait for a client.

uvicorn has no deadlines: a client that sends a byte now and then, or goes on sending after it was
refused, would stay for ever. Importing this gives its connections some; for uvicorn on h11, as
requirements.txt has it.
"""
import asyncio
import contextlib

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

import admission

# How long a refused body is still read, and how much later than an admission a connection gives up.
LINGER_S = 5


def lingering(receive, send):
    """A `send` for an answer that does not wait for the body. Many clients read an answer only when
    they have sent everything, and would find the connection broken if it were closed at once."""
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
    """Sets the deadline anew when a request, or its body, begins to arrive; lifts it when all is
    there."""
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
