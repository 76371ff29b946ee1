"""uvicorn with the deadlines of jobs/serving/connections.py, on this machine; an application in
MLServer's place.
"""
import asyncio
import contextlib
import importlib
import socket
import sys
import threading
import time
import unittest
import unittest.mock

from job_files import ROOT, wheel

sys.path.insert(0, str(ROOT / "jobs/serving"))
LINGER_S = 0.25
WAIT_S = 120  # for what comes much sooner


async def application(scope, receive, send):
    """Answers at once with the path's status, /503 with lingering; /200 reads the body first and
    returns it."""
    status, body = int(scope["path"][1:]), b"refused"
    if status == 503:
        send = sys.modules["connections"].lingering(receive, send)
    if status == 200:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        await asyncio.sleep(2 * LINGER_S + 1)  # deadlines are for what arrives, not for the answer
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Connections(unittest.TestCase):
    def setUp(self):
        uvicorn = wheel("uvicorn")
        wheel("PIL.Image")
        admission, connections, pictures = map(importlib.import_module,
                                               ("admission", "connections", "pictures"))
        for place, name, value in (
                (connections, "LINGER_S", LINGER_S),
                (admission, "ADMISSION_OF_OTHERS",
                 admission.Admission(pictures.Limits(max_body_seconds=1)))):
            patch = unittest.mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(application, http="h11", ws="none", lifespan="off",
                                               log_level="critical", timeout_keep_alive=WAIT_S))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()

        def stop():
            server.should_exit = server.force_exit = True
            thread.join()
            listener.close()
        self.addCleanup(stop)

    def connect(self, head=b""):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.addCleanup(client.close)
        client.sendall(head)
        return client

    def rest(self, client):
        """What comes until the server closes the connection."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while data := client.recv(1 << 16):
                received += data
        return received

    def answer(self, client, text):
        received = b""
        while not received.endswith(text):
            data = client.recv(1 << 16)
            self.assertTrue(data, f"closed after {received}")
            received += data
        return received

    def test_a_client_that_says_nothing_is_left(self):
        self.assertEqual(self.rest(self.connect()), b"")

    def test_a_head_that_does_not_end_is_left(self):
        self.assertEqual(self.rest(self.connect(b"POST /200 HTTP/1.1\r\nHost: a\r\nX")), b"")

    def test_a_head_that_does_not_end_is_left_after_a_whole_request_too(self):
        client = self.connect(b"GET /404 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.answer(client, b"refused")
        client.sendall(b"POST /200")
        self.assertEqual(self.rest(client), b"")

    def test_a_body_that_does_not_end_is_left(self):
        client = self.connect(b"POST /200 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12")
        self.assertEqual(self.rest(client), b"")

    def test_a_byte_now_and_then_gains_no_time(self):
        chunk = b"1\r\na\r\n"
        for head, byte in (
                (b"POST /200 HTTP/1.1\r\nHost: a\r\nX: ", b"a"),
                (b"POST /200 HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n", b"a"),
                (b"POST /200 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk),
                (b"POST /411 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunk)):
            client, pause = self.connect(head), threading.Event()
            with self.subTest(head), self.assertRaises(ConnectionError):
                for _ in range(100 * WAIT_S):
                    client.sendall(byte)
                    pause.wait(0.01)

    def test_a_body_that_goes_on_after_its_refusal_is_left(self):
        client = self.connect(
            b"POST /411 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
        end = time.monotonic() + WAIT_S
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                client.sendall(chunk)
        self.assertIn(b"HTTP/1.1 411 ", self.rest(client))

    def test_a_client_that_sends_everything_first_gets_its_refusal(self):
        body = bytes(50 << 20)
        for more in ("", "Connection: close\r\n"):
            client = self.connect()
            with unittest.mock.patch.object(sys.modules["connections"], "LINGER_S", WAIT_S):
                client.sendall(f"POST /503 HTTP/1.1\r\nHost: a\r\n{more}"
                               f"Content-Length: {len(body)}\r\n\r\n".encode())
                client.sendall(body)
                self.assertIn(b"HTTP/1.1 503 ", self.answer(client, b"refused"))

    def test_lingering_has_an_end(self):
        for more in (b"", b"Connection: close\r\n"):
            client = self.connect(b"POST /503 HTTP/1.1\r\nHost: a\r\n" + more
                                  + b"Content-Length: 9\r\n\r\n1234")
            self.assertIn(b"HTTP/1.1 503 ", self.rest(client))

    def test_a_refused_body_that_ends_leaves_the_connection_to_use(self):
        linger_s = 3
        with unittest.mock.patch.object(sys.modules["connections"], "LINGER_S", linger_s):
            client = self.connect(
                b"POST /413 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234")
            self.answer(client, b"refused")
            client.sendall(b"56789")
            threading.Event().wait(linger_s + LINGER_S)
        client.sendall(b"POST /200 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        self.assertIn(b"HTTP/1.1 200 ", self.answer(client, b"body"))

    def test_requests_one_after_the_other_and_all_at_once_are_answered(self):
        request = b"POST /200 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
        client = self.connect(request)
        self.answer(client, b"body")
        client.sendall(request * 2 + b"GET /404 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(self.answer(client, b"refused").count(b"HTTP/1.1 200 "), 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
