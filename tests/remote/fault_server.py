"""Files over HTTP on a loopback port, with the faults of networks, proxies and storage services.

    with FaultServer(folder) as server:
        server.faults = [stall, status(503)]     # of the next requests for files, one each
        server.fault = lambda request: ...       # of every request: a fault or None

A fault is a function of a Request. The server answers as S3, Azure and nginx do: ranges, ETags, 404.
"""
import email.utils
import gzip
import hashlib
import hmac
import http.server
import pathlib
import random
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client may go at any time
            super().handle_error(request, address)


class FaultServer:
    def __init__(self, folder, prefix=""):
        self.folder, self.prefix = pathlib.Path(folder), prefix
        self.faults, self.fault, self.check = [], lambda request: None, lambda request: None
        self.requests, self.lock, self.versions = [], threading.Lock(), {}
        self.has_ranges, self.bytes_per_second = True, None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                outer.answer(self)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = self.root + prefix

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def etag(self, name):
        return f'"{name}-{self.versions.get(name, 0)}"'

    def answer(self, handler):
        request = Request(self, handler)
        with self.lock:
            self.requests.append(request)
            refusal = self.check(request)
            fault = None
            if not refusal:
                fault = self.faults.pop(0) if self.faults else self.fault(request)
        try:
            if refusal:
                refusal(request)
            elif fault:
                fault(request)
            else:
                request.serve()
        except OSError:
            handler.close_connection = True


class Request:
    def __init__(self, server, handler):
        self.server, self.handler, self.headers = server, handler, handler.headers
        self.path, _, self.query = handler.path.partition("?")
        name = urllib.parse.unquote(self.path)
        self.name = name.removeprefix(server.prefix).lstrip("/")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.asked = (int(asked[1]), int(asked[2])) if asked and server.has_ranges else None

    def content(self):
        path = self.server.folder / self.name
        return path.read_bytes() if self.name and path.is_file() else None

    def answer(self, code, headers, body):
        self.handler.send_response(code)
        for name, value in headers.items():
            self.handler.send_header(name, str(value))
        self.handler.end_headers()
        rate = self.server.bytes_per_second
        if rate is None:
            self.handler.wfile.write(body)
        for at in range(0, len(body) if rate else 0, 65536):
            self.handler.wfile.write(body[at:at + 65536])
            time.sleep(65536 / rate)

    def serve(self, change=lambda code, headers, body: (code, headers, body)):
        """The right answer, after `change`."""
        content = self.content()
        if content is None:
            return missing(self)
        headers = {"ETag": self.server.etag(self.name), "Content-Length": len(content)}
        code, body = 200, content
        if self.asked:
            first, last = self.asked[0], min(self.asked[1], len(content) - 1)
            if first >= len(content):
                return self.answer(416, {"Content-Length": 0}, b"")
            code, body = 206, content[first:last + 1]
            headers |= {"Content-Range": f"bytes {first}-{last}/{len(content)}",
                        "Content-Length": len(body)}
        self.answer(*change(code, headers, body))


# --- Connections -------------------------------------------------------------------------------------
def reset(request):
    connection = request.handler.connection
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.handler.close_connection = True
    connection.close()


def serve_half(request):
    request.serve(lambda code, headers, body: (code, headers, body[:len(body) // 2]))
    request.handler.wfile.flush()


def cut(request):
    """Half of the body, then a reset."""
    serve_half(request)
    reset(request)


def closed(request):
    """Half of the body, then an orderly end."""
    serve_half(request)
    request.handler.close_connection = True


def stall(request, seconds=4):
    """Half of the body, then nothing."""
    serve_half(request)
    time.sleep(seconds)
    request.handler.close_connection = True


def silent(request):
    """Nothing at all, for longer than any test."""
    time.sleep(600)


def write_for_ever(request, piece):
    """Until the client has enough."""
    request.handler.close_connection = True
    while True:
        request.handler.wfile.write(piece)


def endless(code):
    """The right answer, or a refusal, and no end of it."""
    def answer(request):
        def change(_, headers, body):
            return code or _, {k: v for k, v in headers.items() if k != "Content-Length"}, body
        request.serve(change)
        write_for_ever(request, b"x" * 65536)
    return answer


def endless_headers(request):
    request.handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    write_for_ever(request, b"X-More: " + b"x" * 4096 + b"\r\n")


# --- Answers that are wrong ---------------------------------------------------------------------------
def truncated(request):
    """Half of the body, as if that were all."""
    request.serve(lambda code, headers, body: (code, headers | {"Content-Length": len(body) // 2},
                                               body[:len(body) // 2]))


def too_long(request):
    request.serve(lambda code, headers, body: (code, headers | {"Content-Length": len(body) + 5},
                                               body + b"extra"))


def without_length(request):
    """The body ends with the connection, early."""
    def change(code, headers, body):
        return code, {k: v for k, v in headers.items() if k != "Content-Length"}, body[:len(body) // 2]
    request.serve(change)
    request.handler.close_connection = True


def wrong_range(request):
    def change(code, headers, body):
        if code == 206:
            first, last = request.asked
            shift = max(1, first // 2)
            size = headers["Content-Range"].split("/")[1]
            headers = headers | {"Content-Range": f"bytes {first + shift}-{last + shift}/{size}"}
        return code, headers, bytes(reversed(body))
    request.serve(change)


def gzipped(request):
    """What a proxy does that compresses all that passes."""
    def change(code, headers, body):
        body = gzip.compress(body)
        return code, headers | {"Content-Encoding": "gzip", "Content-Length": len(body)}, body
    request.serve(change)


def flipped(request):
    """A wrong bit somewhere that nothing but the hash can tell."""
    def change(code, headers, body):
        at = random.randrange(len(body)) if body else 0
        return code, headers, body[:at] + bytes([body[at] ^ 1]) + body[at + 1:] if body else body
    request.serve(change)


def stale(request):
    """An earlier version of the object, as a cache may have it: other content, its own ETag."""
    request.serve(lambda code, headers, body:
                  (code, headers | {"ETag": f'"{request.name}-earlier"'}, body[::-1]))


def changed(request):
    """The object is another one from now on, with the same content."""
    server = request.server
    server.versions[request.name] = server.versions.get(request.name, 0) + 1
    request.serve()


# --- Refusals ----------------------------------------------------------------------------------------
def status(code, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.answer(code, {"Content-Length": len(body), **named}, body)


def missing(request):
    body = (b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><Error><Code>BlobNotFound</Code><Message>'
            b'The specified blob does not exist.\nRequestId:6f3e0b4c-601e-0012-5d1c-0d8b5f000000\n'
            b'Time:2024-01-01T00:00:00.0000000Z</Message></Error>')
    request.answer(404, {"Content-Length": len(body), "Content-Type": "application/xml",
                         "x-ms-error-code": "BlobNotFound"}, body)


def azure_refusal(request):
    """As Azure writes it, which repeats what was signed."""
    body = ('\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>'
            "Server failed to authenticate the request. Make sure the value of Authorization header is "
            "formed correctly including the signature.\nRequestId:6f3e0b4c-601e-0012-5d1c-0d8b5f000000\n"
            "Time:2024-01-01T00:00:00.0000000Z</Message><AuthenticationErrorDetail>Signature did not match. "
            f"String to sign used was {request.query} {request.headers.get('Authorization')}"
            "</AuthenticationErrorDetail></Error>").encode()
    request.answer(403, {"Content-Length": len(body), "Content-Type": "application/xml",
                         "x-ms-error-code": "AuthenticationFailed"}, body)


def s3_refusal(request):
    """As S3 writes it, which repeats the request with its token."""
    token = request.headers.get("x-amz-security-token")
    body = ('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>The '
            "request signature we calculated does not match the signature you provided. Check your key and "
            f"signing method.</Message><AWSAccessKeyId>{request.headers.get('Authorization')}</AWSAccessKeyId>"
            f"<CanonicalRequest>GET\nx-amz-security-token:{token}</CanonicalRequest>"
            "<RequestId>4442587FB7D0A2F9</RequestId><HostId>vZdvqUZk=</HostId></Error>").encode()
    request.answer(403, {"Content-Length": len(body), "Content-Type": "application/xml"}, body)


def busy_until(seconds):
    """429 with a date instead of seconds."""
    return lambda request: status(429, Retry_After=email.utils.formatdate(
        time.time() + seconds, usegmt=True))(request)


# --- Signatures --------------------------------------------------------------------------------------
def sigv4_problem(request, key_id, secret, region, token=None):
    """Computes AWS Signature Version 4 from the request as it came; what is wrong, or None."""
    headers = request.headers
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                         r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})",
                         headers.get("Authorization", ""))
    if not match:
        return f"no signature: {headers.get('Authorization')}"
    got_id, day, got_region, signed, signature = match.groups()
    if got_id != key_id or got_region != region:
        return f"signed by {got_id} for {got_region}"
    payload = headers.get("x-amz-content-sha256")
    if payload not in (hashlib.sha256(b"").hexdigest(), "UNSIGNED-PAYLOAD"):
        return f"x-amz-content-sha256 is {payload}"
    names = signed.split(";")
    if names != sorted(names) or not {"host", "x-amz-date"} <= set(names):
        return f"signed headers: {signed}"
    if token is not None and (headers.get("x-amz-security-token") != token
                              or "x-amz-security-token" not in names):
        return "the session token is missing or not signed"
    canonical = "\n".join(
        ["GET", urllib.parse.quote(urllib.parse.unquote(request.path), safe="/-._~"), request.query]
        + [f"{name}:{' '.join(headers[name].split())}" for name in names] + ["", signed, payload])
    date = headers["x-amz-date"]
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, f"{day}/{region}/s3/aws4_request",
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    wanted = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return None if wanted == signature else f"wrong signature of {canonical!r}"
