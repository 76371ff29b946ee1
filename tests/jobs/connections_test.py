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
import types
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


class Clock:
    """A loop's time, which only waiting moves."""

    def __init__(self):
        self.now, self.waits = 1000.0, []

    def time(self):
        return self.now

    async def sleep(self, seconds):
        self.waits.append(round(seconds, 3))


class Paces(unittest.TestCase):
    def setUp(self):
        wheel("uvicorn"), wheel("PIL.Image")
        self.connections = importlib.import_module("connections")

    def waits(self, turns, per_second=10, after=()):
        """How long each of the turns has to wait, the clock standing still."""
        clock, pace = Clock(), self.connections.Pace(per_second)

        async def ask():
            for _ in range(turns):
                await pace.turn()
            for seconds in after:
                clock.now += seconds
                await pace.turn()

        with unittest.mock.patch.object(self.connections, "asyncio", types.SimpleNamespace(
                sleep=clock.sleep, get_running_loop=lambda: clock)):
            asyncio.run(ask())
        return clock.waits

    def test_a_second_of_refusals_leaves_at_once_and_the_next_ones_wait(self):
        self.assertEqual(self.waits(13), [0.0] * 11 + [0.1, 0.2])

    def test_quiet_times_are_not_saved_up(self):
        self.assertEqual(self.waits(1, after=[60] + [0] * 12), [0.0] * 12 + [0.1, 0.2])

    def test_a_refusal_is_not_held_back_for_longer_than_it_would_linger(self):
        self.assertEqual(self.waits(100)[-1], self.connections.LINGER_S)


class Connections(unittest.TestCase):
    def setUp(self):
        uvicorn = wheel("uvicorn")
        wheel("PIL.Image")
        admission, connections, request = map(importlib.import_module,
                                               ("admission", "connections", "request"))
        for place, name, value in (
                (connections, "LINGER_S", LINGER_S),
                (admission, "ADMISSION_OF_OTHERS",
                 admission.Admission(request.Limits(max_body_seconds=1)))):
            patch = unittest.mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = unittest.mock.patch.object(
            connections.RequestResponseCycle, "run_asgi", connections.RequestResponseCycle.run_asgi)
        patch.start()
        self.addCleanup(patch.stop)
        self.refused = []
        connections.guard(lambda model, refused: self.refused.append((model, refused.status)))
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

    def own(self, **limits):
        """A model of its own, called coco."""
        admission, request = sys.modules["admission"], sys.modules["request"]
        own = admission.Admission(request.Limits(**limits), "coco")
        patch = unittest.mock.patch.dict(admission.ADMISSION_OF_MODEL, coco=own)
        patch.start()
        self.addCleanup(patch.stop)
        return own

    def test_what_the_headers_refuse_never_reaches_the_application(self):
        self.own(max_body_bytes=1000)
        for path in ("/v2/models/coco/infer", "/v2/models/coco/versions/1/infer"):
            for headers, status in (("Content-Length: 1001", 413), ("Transfer-Encoding: chunked", 411),
                                    ("Content-Length: 1\r\nContent-Encoding: gzip", 415)):
                client = self.connect(f"POST {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n".encode())
                answer = self.answer(client, b"}")
                self.assertIn(b"HTTP/1.1 %d " % status, answer)
                self.assertIn(b'{"error": "body: ', answer)
        self.assertEqual(self.refused, [("coco", 413), ("coco", 411), ("coco", 415)] * 2)

    def test_a_made_up_method_never_reaches_the_application(self):
        for path in ("/200", "/v2/models/coco/infer"):
            client = self.connect(f"PLEASE {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            answer = self.answer(client, b"}")
            self.assertIn(b"HTTP/1.1 501 ", answer)
            self.assertIn(b'{"error": "method: is none of HTTP\'s"}', answer)

    def test_without_a_place_the_answer_says_when_to_come_back(self):
        with self.own(max_requests=1).place():
            client = self.connect(b"POST /v2/models/coco/infer HTTP/1.1\r\nHost: a\r\n"
                                  b"Content-Length: 4\r\n\r\nbody")
            answer = self.answer(client, b"}")
            self.assertIn(b"HTTP/1.1 503 ", answer)
            self.assertIn(b"retry-after: 1\r\n", answer)
            # Only what works the model needs a place.
            client.sendall(b"GET /200 HTTP/1.1\r\nHost: a\r\n\r\n")
            self.answer(client, b"\r\n\r\n")
        self.assertEqual(self.refused, [("coco", 503)])

    def test_requests_one_after_the_other_and_all_at_once_are_answered(self):
        request = b"POST /200 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
        client = self.connect(request)
        self.answer(client, b"body")
        client.sendall(request * 2 + b"GET /404 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(self.answer(client, b"refused").count(b"HTTP/1.1 200 "), 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
