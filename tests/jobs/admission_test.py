"""What the server takes in at once: jobs/serving/admission.py on an event loop without a server."""
import asyncio
import contextlib
import importlib
import sys
import unittest
import unittest.mock

from job_files import ROOT, wheel

sys.path.insert(0, str(ROOT / "jobs/serving"))


async def chunks_of(*chunks):
    for chunk in chunks:
        yield chunk


async def endless(first=b""):
    yield first
    await asyncio.Event().wait()


async def unread():
    raise AssertionError("the body was read")
    yield


class Admission(unittest.TestCase):
    def setUp(self):
        wheel("PIL.Image")
        self.module = importlib.import_module("admission")
        self.request = importlib.import_module("request")

    def admission(self, **limits):
        return self.module.Admission(self.request.Limits(**limits))

    @contextlib.contextmanager
    def refused(self, status, text):
        with self.assertRaises(self.request.Refused) as caught:
            yield
        self.assertEqual(caught.exception.status, status)
        self.assertIn(text, str(caught.exception))

    def test_a_body_is_refused_by_its_headers_before_it_is_read(self):
        async def ask():
            admission = self.admission(max_body_bytes=1000)
            for status, text, headers in (
                    (413, "body: 1001 bytes (the limit is 1000)", {"content-length": "1001"}),
                    (411, "body: no Content-Length", {"transfer-encoding": "chunked"}),
                    (415, "body: Content-Encoding 'gzip'",
                     {"content-length": "10", "content-encoding": "gzip"}),
                    (415, "body: Content-Type 'image/jpeg' (want application/json); hint: ",
                     {"content-length": "10", "content-type": "image/jpeg"}),
                    (415, "body: Content-Type 'multipart/form-data' (want application/json)",
                     {"content-length": "10", "content-type": "multipart/form-data; boundary=x"})):
                with self.subTest(text), self.refused(status, text):
                    await admission.body(headers, unread())

        asyncio.run(ask())

    def test_a_body_arrives_in_any_pieces(self):
        async def ask():
            admission = self.admission(max_body_bytes=6)
            json_type = {"content-length": "6", "content-type": "Application/JSON; charset=utf-8"}
            body = await admission.body(json_type, chunks_of(b"ab", b"", b"cdef"))
            self.assertEqual((body, admission.arriving_bytes), (b"abcdef", 0))

        asyncio.run(ask())

    def test_a_body_of_many_values_is_refused_before_it_is_parsed(self):
        async def ask():
            admission = self.admission(max_values=10)
            for body in (b"[" * 10, b"1,1,1,1,1,1,1,1,1,1,1", b'{"a": [[1, 2, 3], {"b": {}}]}'):
                self.assertEqual(await admission.body({}, chunks_of(body)), body)
            for body in (b"[" * 11, b"[1,1,1,1,1,1,1,1,1,1,1]", b"[{},{},{},{},{},{}]", b"{" * 11):
                with self.refused(413, " values (the limit is 10)"):
                    await admission.body({}, chunks_of(body[:5], body[5:]))

        asyncio.run(ask())

    def test_no_more_requests_than_places(self):
        async def ask():
            admission = self.admission(max_requests=2)
            busy = "busy: 2 requests wait (the limit)"
            with admission.place():
                with admission.place():
                    with self.refused(503, busy), admission.place():
                        self.fail("a third one was taken")
                    with self.refused(503, busy):
                        await admission.body({}, unread())
                await admission.body({}, chunks_of(b"a"))
            self.assertEqual(admission.requests, 0)

        asyncio.run(ask())

    def test_a_request_that_fails_leaves_its_place(self):
        async def ask():
            admission = self.admission(max_requests=1)
            for _ in range(3):
                with contextlib.suppress(KeyError), admission.place():
                    raise KeyError
            self.assertEqual(admission.requests, 0)

        asyncio.run(ask())

    def test_a_body_that_stops_is_refused_in_the_end(self):
        async def ask():
            admission = self.admission(max_body_seconds=1)
            with self.refused(408, "body: 3 bytes in 1 seconds"):
                await admission.body({"content-length": "9"}, endless(b"abc"))
            self.assertEqual(admission.arriving_bytes, 0)

        asyncio.run(ask())

    def test_bodies_that_arrive_slowly_take_no_places(self):
        async def ask():
            admission = self.admission(max_requests=1)
            slow = [asyncio.create_task(admission.body({"content-length": "9"}, endless(b"abc")))
                    for _ in range(9)]
            await asyncio.sleep(0)
            self.assertEqual(admission.arriving_bytes, 27)
            with admission.place():
                pass
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            self.assertEqual(admission.arriving_bytes, 0)

        asyncio.run(ask())

    def test_arriving_bodies_hold_no_more_than_those_of_all_places(self):
        async def ask():
            admission = self.admission(max_requests=2, max_body_bytes=10)
            slow = [asyncio.create_task(admission.body({"content-length": "10"},
                                                       endless(b"12345678"))) for _ in range(2)]
            await asyncio.sleep(0)
            with self.refused(503, "busy: bodies of 20 bytes arrive (the limit is 20)"):
                await admission.body({"content-length": "5"}, chunks_of(b"1234", b"5"))
            self.assertEqual(admission.arriving_bytes, 16)
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            self.assertEqual(await admission.body({}, chunks_of(b"12345")), b"12345")

        asyncio.run(ask())

    def test_a_path_without_a_model_has_limits_too(self):
        others = self.module.admission_of("nothing")
        self.assertEqual(others.limits, self.request.Limits())
        self.assertIs(self.module.admission_of(None), others)
        own = self.admission()
        with unittest.mock.patch.dict(self.module.ADMISSION_OF_MODEL, coco=own):
            self.assertIs(self.module.admission_of("coco"), own)

    def test_the_most_patient_model_decides_how_long_a_connection_is_kept(self):
        with unittest.mock.patch.dict(self.module.ADMISSION_OF_MODEL,
                                      a=self.admission(max_body_seconds=90),
                                      b=self.admission(max_body_seconds=7)):
            self.assertEqual(self.module.longest_body_seconds(), 90)


if __name__ == "__main__":
    sys.exit(unittest.main())
