"""What serving.py makes of hey's figures, and its bad requests: the service's own checks, asked
without a server, refuse each with the status that it expects.
"""
import importlib
import io
import itertools
import json
import socket
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests/jobs"), str(ROOT / "jobs/serving")]
import hostile  # noqa: E402
import serving  # noqa: E402
from job_files import wheel  # noqa: E402

HEAD = ("response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n")


def row(seconds, status, offset):
    return f"{seconds},0.0006,0.0000,0.0001,0.0054,0.0001,{status},{offset}\n"


class ServingBench(unittest.TestCase):
    def jpeg(self):
        image = wheel("PIL.Image").effect_noise((64, 48), 50)
        file = io.BytesIO()
        image.save(file, "JPEG")
        return file.getvalue()

    def test_a_percentile_is_one_of_the_values(self):
        values = list(range(100, 0, -1))
        for percent, value in ((0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)):
            self.assertEqual(serving.percentile(values, percent), value)
        self.assertEqual(serving.percentile([7], 99), 7)

    def test_refusals_do_not_improve_the_times(self):
        text = HEAD + "".join([row(0.001, 503, 0.1)] * 6 + [row(0.5, 200, 0.2), row(1.5, 200, 0.5)]
                              + [row(0.002, 400, 9.0)] * 2)
        self.assertEqual(serving.summary(text), {
            "requests": 10, "answered_per_s": 1.0, "p50_ms": 500.0, "p99_ms": 1500.0,
            "refused": 0.6, "otherwise": 2})

    def test_a_run_without_an_answer_has_no_figures(self):
        with self.assertRaises(SystemExit):
            serving.summary(HEAD + row(0.001, 503, 0.1))

    def answered(self, answer, kind):
        """What a request is told by a server that reads once, sends `answer` and closes."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                client, _ = listener.accept()
                with client:
                    if answer:
                        client.recv(1)
                        client.sendall(answer)
            thread = threading.Thread(target=serve)
            thread.start()
            status = kind.send(listener.getsockname()[1])
            thread.join()
            return status

    def test_a_request_ends_with_the_status_or_with_the_connection(self):
        endless = hostile.Hostile("", 0, lambda: itertools.repeat(b"x"), 0.01)
        for kind in (endless, hostile.Hostile("", 0, lambda: [b"x"])):
            self.assertEqual(self.answered(b"HTTP/1.1 413 Too Large\r\n\r\n{}", kind), 413)
            self.assertEqual(self.answered(b"", kind), hostile.CLOSED)

    def refusal(self, kind):
        """The status that the service's own checks give; None where they have nothing against it."""
        admission, images, request = map(
            importlib.import_module, ("admission", "images", "request"))
        content = b"".join(itertools.islice(kind.parts(), 3))
        head, _, body = content.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
        limits = request.Limits()
        try:
            admission.check_headers(headers, limits)
            [tensor] = json.loads(body)["inputs"]
            elements = request.elements_of([request.Tensor(**tensor)], limits)
            for jpeg in images.jpegs_of(elements, limits):
                images.decoded(jpeg)
        except request.Refused as refused:
            return refused.status
        return None

    def test_the_service_refuses_each_bad_request_as_expected(self):
        kinds = {kind.what: kind for kind in hostile.hostile_requests("coco", self.jpeg())}
        # Refused by MLServer, uvicorn or a deadline: the soak itself has to show it.
        for what in ("JSON that is cut short", "bytes that are no HTTP", "a body that stops", "silence",
                     "a body, byte by byte", "a head, byte by byte",
                     "the same to a path that is not there", "a model that is not ours"):
            self.assertIn(kinds.pop(what).wanted, (0, 400, 404, 408, 422))
        self.assertGreater(len(kinds), 10)
        for kind in kinds.values():
            with self.subTest(kind.what):
                self.assertEqual(self.refusal(kind), kind.wanted)

    def test_a_good_request_passes_the_same_checks(self):
        jpeg = self.jpeg()
        load = types.SimpleNamespace(get=lambda path, body: (200, sent.append(body)))
        sent = []
        with tempfile.TemporaryDirectory() as folder:
            photograph = Path(folder) / "a.jpg"
            photograph.write_bytes(jpeg)
            serving.Load(types.SimpleNamespace(model="coco", photograph=photograph), load, folder)
        self.assertEqual(len(sent), serving.WARM_UP)
        kind = hostile.Hostile("", 200, lambda: [b"POST / HTTP/1.1\r\n\r\n" + sent[0]])
        self.assertIsNone(self.refusal(kind))

    def test_another_size_is_written_behind_other_segments_too(self):
        thumbnail = self.jpeg()
        segment = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
        jpeg = thumbnail[:2] + segment + thumbnail[2:]
        changed = hostile.with_size(jpeg, 300, 200)
        with wheel("PIL.Image").open(io.BytesIO(changed)) as image:
            self.assertEqual(image.size, (300, 200))
        self.assertEqual(len(changed), len(jpeg))


if __name__ == "__main__":
    sys.exit(unittest.main())
