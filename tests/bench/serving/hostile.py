"""Requests that a server must refuse, each with the status that jobs/serving/README.md promises: over
a limit, damaged, or never ending.
"""
import base64
import contextlib
import itertools
import json
import re
import select
import socket
import struct
import typing

FRAMES = (0xC0, 0xC1, 0xC2)  # the JPEG markers whose segment holds the image's size
FOREIGN = "foreign"  # a model in the repository that the server must not load
CLOSED = 0  # instead of a status: the connection was closed without one
WAIT_S = 120  # for an answer or the end of the connection
TRICKLE_S = 0.2  # from byte to byte


class Hostile(typing.NamedTuple):
    what: str
    wanted: int
    parts: typing.Callable  # what is sent, as an iterable of bytes
    pause_s: float = 0.0
    is_quick: bool = True  # its connection ends with the answer

    def send(self, port):
        """The status that it gets; returns when the server has closed the connection."""
        received = b""
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
            with contextlib.suppress(ConnectionError):  # closed while something was sent
                for part in self.parts():
                    client.sendall(part)
                    if select.select([client], [], [], self.pause_s)[0]:
                        data = client.recv(1 << 16)
                        if not data:
                            break
                        received += data
                while data := client.recv(1 << 16):
                    received += data
        found = re.match(rb"HTTP/1\.1 (\d+) ", received)
        return int(found[1]) if found else CLOSED


def with_size(jpeg, width, height):
    """The same file with another size in its header."""
    at = 2
    while jpeg[at + 1] not in FRAMES:
        at += 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]
    return jpeg[:at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9:]


def hostile_requests(model, jpeg):
    """`jpeg` is a good one."""
    path = f"/v2/models/{model}/infer"

    def head(*headers, to=path):
        lines = [f"POST {to} HTTP/1.1", "Host: server", "Content-Type: application/json", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    def whole(what, wanted, body, to=path):
        content = head("Connection: close", f"Content-Length: {len(body)}", to=to) + body
        return Hostile(what, wanted, lambda: [content])

    def images(what, wanted, *files, name="image"):
        data = [base64.b64encode(file).decode() if isinstance(file, bytes) else file
                for file in files]
        return whole(what, wanted, json.dumps({"inputs": [
            {"name": name, "datatype": "BYTES", "shape": [len(data)], "data": data}]}).encode())

    def endless(what, wanted, first, then, pause_s=0.0):
        return Hostile(what, wanted, lambda: itertools.chain([first], itertools.repeat(then)),
                       pause_s, is_quick=False)

    chunked, kilobytes = "Transfer-Encoding: chunked", b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    return [
        images("a JPEG cut in half", 400, jpeg[:len(jpeg) // 2]),
        images("a good JPEG, then a cut one", 400, jpeg, jpeg[:len(jpeg) // 2]),
        images("no JPEG", 400, b"\x89PNG\r\n\x1a\n" + bytes(1000)),
        images("damaged base64", 400, base64.b64encode(jpeg).decode()[:-3] + "?"),
        images("a tensor of another name", 400, jpeg, name="photo"),
        whole("JSON that is cut short", 400, b'{"inputs": [{"name": "image", "dat'),
        images("too many JPEGs", 413, *[b"\xff\xd8"] * 1000),
        images("a JPEG of 65,535 x 65,535 by its header", 400, with_size(jpeg, 65535, 65535)),
        whole("a model that is not ours", 422, b"{}", f"/v2/repository/models/{FOREIGN}/load"),
        Hostile("bytes that are no HTTP", 400, lambda: [b"\x16\x03\x01\x02\x00\r\n\r\n"]),
        Hostile("a terabyte, by its header", 413, lambda: [head("Content-Length: 1099511627776")],
                is_quick=False),
        Hostile("a compressed body", 415,
                lambda: [head("Connection: close", "Content-Encoding: gzip", "Content-Length: 9"),
                         b"123456789"]),
        endless("a chunked body without end", 411, head(chunked), kilobytes),
        endless("the same to a model that is not there", 411,
                head(chunked, to="/v2/models/another/infer"), kilobytes),
        endless("the same to a path that is not there", 404, head(chunked, to="/another"),
                kilobytes),
        endless("a chunked body, byte by byte", 411, head(chunked), b"1\r\n1\r\n", TRICKLE_S),
        endless("a body, byte by byte", 408, head("Content-Length: 1000000"), b"1", TRICKLE_S),
        Hostile("a body that stops", 408, lambda: [head("Content-Length: 1000000"), b"1"],
                is_quick=False),
        endless("a head, byte by byte", CLOSED, b"POST /", b"1", TRICKLE_S),
        Hostile("silence", CLOSED, lambda: [], is_quick=False),
    ]
