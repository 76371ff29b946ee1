"""The service (jobs/serving) and its limits, without MLServer and PyTorch: stand-ins have the names
that retina_service.py and the runtimes use of them. What the real ones do is tests/oracle's to show.
"""
import asyncio
import base64
import concurrent.futures
import contextlib
import importlib
import io
import re
import resource
import struct
import subprocess
import sys
import threading
import time
import types
import unittest
import unittest.mock

from job_files import ROOT, wheel

sys.path.insert(0, str(ROOT / "jobs/serving"))
LARGE = (4000, 3000)
PLANES_KIB = 3 * LARGE[0] * LARGE[1] // 1024


class ServerError(Exception):
    def __init__(self, text, status_code=400):
        super().__init__(text)
        self.status_code = status_code


class Model:
    def __init__(self, settings):
        self.settings, self.name, self.version = settings, settings.name, "1"

    async def metadata(self):
        return types.SimpleNamespace(parameters=None)


class HttpError(Exception):
    def __init__(self, status_code, detail):
        self.status_code, self.detail = status_code, detail


class Request:
    def __init__(self, headers, body, **path_params):
        self.headers, self.path_params, self._sent = headers, path_params, body
        self.scope = {}

    async def stream(self):
        yield self._sent


class Response:
    def __init__(self, content, status_code, headers=None):
        self.status_code, self.headers = status_code, headers or {}

    async def __call__(self, scope, receive, send):
        await send("answer")


def service(runtime="retina_detector"):
    """The runtime between stand-ins; its Datatype, outputs and Parameters are what they are given."""
    server = unittest.mock.MagicMock(MLModel=Model)
    server.errors.MLServerError = ServerError
    server.rest.requests.Request = Request
    server.rest.errors.Response = Response
    server.types.Datatype = lambda name: types.SimpleNamespace(value=name)
    server.types.Parameters = server.types.ResponseOutput = types.SimpleNamespace
    torch = unittest.mock.MagicMock(inference_mode=lambda: lambda function: function)
    parts = {f"mlserver.{name}": getattr(server, name)
             for name in ("errors", "grpc", "rest", "types", "utils")}
    parts |= {"mlserver.grpc.utils": server.grpc.utils, "mlserver.rest.app": server.rest.app,
              "mlserver.rest.errors": server.rest.errors,
              "mlserver.rest.requests": server.rest.requests,
              "connections": unittest.mock.MagicMock(),  # has a test of its own
              "prometheus_client": unittest.mock.MagicMock(),
              "fastapi": types.SimpleNamespace(HTTPException=HttpError)}
    importlib.import_module("admission")  # stays when the stand-ins go
    with unittest.mock.patch.dict(
            sys.modules, parts | {"mlserver": server, "torch": torch, "grpc": server.grpc}):
        for name in ("retina_service", runtime):
            sys.modules.pop(name, None)
        module = importlib.import_module(runtime)
        module.service = sys.modules["retina_service"]
        return module


def settings(**extra):
    return types.SimpleNamespace(name="coco", parameters=types.SimpleNamespace(extra=extra))


def detector(**extra):
    module = service()

    class Detector(module.RetinaDetector):
        seen = ()

        def _result(self, height, width, planes):
            self.seen += (len(planes),)
            return [], [], []

    found = Detector(settings(**extra))
    found._model = types.SimpleNamespace(category_names=[], category_ids=[])
    return found


def request(*elements, shape=None, datatype="BYTES"):
    """As MLServer gives it, of JPEGs as bytes or of what else JSON holds."""
    data = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in elements]
    return types.SimpleNamespace(id="1", outputs=None, inputs=[types.SimpleNamespace(
        name="image", datatype=datatype, shape=shape or [len(data)],
        data=types.SimpleNamespace(root=data))])


def jpeg(width=8, height=8, mode="RGB"):
    file = io.BytesIO()
    wheel("PIL.Image").new(mode, (width, height)).save(file, "JPEG")
    return file.getvalue()


def claiming(width, height):
    """A small JPEG whose header says another size."""
    data = jpeg()
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4:]


def peak_kib(count):
    """What this process had at most after a request of so many large pictures."""
    detector()._outputs(request(*[jpeg(*LARGE)] * count))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Serving(unittest.TestCase):
    def setUp(self):
        wheel("PIL.Image")
        self.pictures = importlib.import_module("pictures")

    @contextlib.contextmanager
    def refused(self, status, text):
        with self.assertRaises(self.pictures.Refused) as caught:
            yield
        self.assertEqual(caught.exception.status, status)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_six_pictures_take_the_memory_of_one(self):
        one, six = (int(subprocess.run(
            [sys.executable, __file__, "peak", str(count)], check=True, capture_output=True,
            timeout=300).stdout) for count in (1, 6))
        self.assertLess(six - one, PLANES_KIB)

    def answered(self, model, requests):
        """The places in `requests` in the order in which the model had their pictures, and how many
        decoded pictures there were at most. The width of a picture says which request it is of."""
        lock, held, most, order = threading.Lock(), [], [], []
        service = model.predict.__globals__
        decode = service["decoded"]

        def decoded(file):
            with lock:
                held.append(1)
                most.append(len(held))
            return decode(file)

        def detect(_, width, __):
            time.sleep(0.02)  # for the others to come, if they may
            order.append(width - 1)
            with lock:
                held.pop()
            return [], [], []

        async def all_at_once():
            await asyncio.gather(*map(model.predict, requests))

        model._result = detect
        with unittest.mock.patch.dict(service, decoded=decoded):
            asyncio.run(all_at_once())
        return order, max(most)

    def test_many_requests_hold_two_decoded_pictures_at_most(self):
        order, most = self.answered(detector(), [request(jpeg(), jpeg())] * 8)
        self.assertEqual((len(order), most), (16, 2))

    def test_requests_are_answered_in_the_order_of_their_arrival(self):
        model = detector(max_requests=24)
        # Of two workers one may be held up while the other goes on.
        model._workers = concurrent.futures.ThreadPoolExecutor(1)
        order, _ = self.answered(model, [request(jpeg(width)) for width in range(1, 25)])
        self.assertEqual(order, list(range(24)))

    def test_a_request_over_a_limit_is_refused_before_a_picture_is_decoded(self):
        small, large = jpeg(), claiming(1000, 1001)
        for sent, text in (
                (request(*[small] * 4), "image: more than 3 pictures (the limit)"),
                (request(small, large), "image[1]: picture of 1000x1001 pixels (the limit is 10"),
                (request(small, claiming(65535, 65535)), "picture of 65535x65535 pixels"),
                (request(*[claiming(900, 900)] * 2), "image: 1620000 pixels in all (the"),
                (request(small, small + b"0" * 9000), "bytes (the limit is 9000)")):
            model = detector(max_pictures=3, max_picture_pixels=1_000_000,
                             max_request_pixels=1_500_000, max_body_bytes=9000)
            with self.subTest(text), self.refused(413, text):
                model._outputs(sent)
            self.assertEqual(model.seen, ())

    def test_what_fits_the_limits_exactly_is_taken(self):
        file = jpeg(20, 10)
        sent = len(base64.b64encode(file))
        model = detector(max_pictures=2, max_picture_pixels=200, max_request_pixels=400,
                         max_body_bytes=2 * sent)
        model._outputs(request(file, file))
        self.assertEqual(model.seen, (600, 600))

    def test_base64_is_not_decoded_when_it_is_too_long(self):
        with unittest.mock.patch.object(self.pictures.base64, "b64decode") as decode, \
                self.refused(413, "image: 104 bytes (the limit is 100)"):
            detector(max_body_bytes=100)._outputs(request(b"x" * 39, b"y" * 39))
        decode.assert_not_called()

    def test_raw_jpegs_count_as_much_as_base64(self):
        files = request()
        files.inputs[0].data.root, files.inputs[0].shape = [jpeg()], [1]
        size = len(jpeg())
        detector(max_body_bytes=size)._outputs(files)
        with self.refused(413, f"image: {size} bytes (the limit is {size - 1})"):
            detector(max_body_bytes=size - 1)._outputs(files)

    def test_the_http_server_asks_the_models_own_admission(self):
        module = service()
        module.RetinaDetector(settings(max_body_bytes=1000))

        def body(model, content, **headers):
            sent = module.service.BoundedRequest(headers, content, model_name=model)
            return asyncio.run(sent.body())

        self.assertEqual(body("coco", b"{}", **{"content-length": "2"}), b"{}")
        with self.assertRaises(ServerError) as caught:
            body("coco", b"", **{"content-length": "1001"})
        self.assertEqual(caught.exception.status_code, 413)
        self.assertEqual(str(caught.exception), "body: 1001 bytes (the limit is 1000); hint: send "
                         "fewer pictures at a time")
        # FastAPI makes 400 of any other error that a body raises.
        self.assertIsInstance(caught.exception, HttpError)
        self.assertEqual(body("another", b"x", **{"content-length": "1001"}), b"x")
        with self.assertRaises(ServerError):
            body("another", b"", **{"transfer-encoding": "chunked"})

    def test_a_refusal_for_now_says_when_to_come_back(self):
        module = service()
        answer = module.service.mlserver.rest.errors.Response
        self.assertEqual(answer(content={}, status_code=503).headers, {"Retry-After": "1"})
        self.assertEqual(answer(content={}, status_code=400).headers, {})
        codes = module.service.STATUS_CODE_MAPPING.setdefault.call_args_list
        self.assertIn(unittest.mock.call(503, module.service.grpc.StatusCode.UNAVAILABLE), codes)

    def test_more_requests_than_places_are_refused_while_the_others_are_answered(self):
        model, free = detector(max_requests=3), threading.Event()

        def detect(*_):
            free.wait()
            return [], [], []

        async def ask():
            sent = [asyncio.create_task(model.predict(request(jpeg()))) for _ in range(5)]
            done, waiting = await asyncio.wait(sent, return_when=asyncio.FIRST_EXCEPTION)
            free.set()
            await asyncio.wait(waiting)
            await model.predict(request(jpeg()))
            return [task.exception() for task in sent]

        model._result = detect
        errors = asyncio.run(ask())
        self.assertEqual(errors[:3], [None] * 3)
        self.assertEqual([error.status_code for error in errors[3:]], [503, 503])

    def test_a_refusal_lingers_where_the_body_has_not_arrived(self):
        module = service()
        module.RetinaDetector(settings(max_body_bytes=1000))
        sent, lingering = [], module.service.connections.lingering

        async def send(message):
            sent.append(message)

        async def send_lingering(message):
            sent.append(f"lingering {message}")

        lingering.side_effect = lambda receive, send: send_lingering
        answer = module.service.ErrorResponse({}, 413)
        for headers, expected in (({"content-length": "1"}, "answer"),
                                  ({"content-length": "1001"}, "lingering answer")):
            asked = module.service.BoundedRequest(headers, b"x", model_name="coco")
            with contextlib.suppress(ServerError):
                asyncio.run(asked.body())
            asyncio.run(answer(asked.scope, None, send))
            self.assertEqual(sent.pop(), expected)

    def test_refusals_are_counted_by_model_and_status_and_not_logged(self):
        module = service()
        model, counter = module.RetinaDetector(settings(max_body_bytes=1000)), module.service.REFUSED
        with self.assertRaises(ServerError) as caught:
            asyncio.run(model.predict(request(b"hello")))
        for path in ("coco", "another"):
            with self.assertRaises(ServerError):
                asyncio.run(module.service.BoundedRequest(
                    {"transfer-encoding": "chunked"}, b"", model_name=path).body())
        self.assertEqual([call.args for call in counter.labels.call_args_list],
                         [("coco", 400), ("coco", 411), ("", 411)])
        self.assertEqual(counter.labels.return_value.inc.call_count, 3)
        [passes] = module.service.logger.addFilter.call_args.args
        self.assertFalse(passes(types.SimpleNamespace(msg=caught.exception)))
        self.assertTrue(passes(types.SimpleNamespace(msg=ValueError("bug"))))

    def test_the_models_time_is_measured_for_each_picture(self):
        module = service()
        model = module.RetinaDetector(settings())

        async def uri(*_, **__):
            return "m.pt"

        found = types.SimpleNamespace(score_threshold=0.05, category_names=["cat"],
                                      category_ids=[1])
        with unittest.mock.patch.object(module.service, "get_model_uri", uri), \
                unittest.mock.patch.object(
                    module.service.checked_model, "load", lambda *_: unittest.mock.MagicMock(
                        return_value=[unittest.mock.MagicMock()] * 4, **vars(found))):
            asyncio.run(model.load())
        seconds = module.service.MODEL_SECONDS
        seconds.labels.assert_called_once_with("coco", "1")
        for _ in range(2):
            model._result(8, 8, bytearray(192))
        self.assertEqual(seconds.labels.return_value.time.call_count, 2)

    def test_a_classifier_names_the_best_classes_of_each_picture(self):
        found = iter([([0.7, 0.2], [2, 0]), ([0.5, 0.5], [0, 1])])
        model = service("retina_classifier").RetinaClassifier(settings())
        model._model = types.SimpleNamespace(category_names=["cat", "dog", "cow"],
                                             category_ids=[3, 5, 9])
        model._result = lambda height, width, planes: next(found)
        outputs = {output.name: output for output in model._outputs(request(jpeg(), jpeg()))}
        self.assertEqual({name: output.data for name, output in outputs.items()}, {
            "scores": [0.7, 0.2, 0.5, 0.5], "labels": [2, 0, 0, 1],
            "category_ids": [9, 3, 3, 5], "category_names": ["cow", "cat", "cat", "dog"]})
        self.assertTrue(all(output.shape == [2, 2] for output in outputs.values()))

    def test_a_runtime_takes_models_of_its_own_kind(self):
        models = {"a detector": types.SimpleNamespace(score_threshold=0.05),
                  "a classifier": types.SimpleNamespace()}
        for runtime, name, own in (("retina_detector", "RetinaDetector", "a detector"),
                                   ("retina_classifier", "RetinaClassifier", "a classifier")):
            module = service(runtime)
            for kind, model in models.items():
                async def uri(*_, **__):
                    return "m.pt"

                with self.subTest(runtime=runtime, model=kind), \
                        unittest.mock.patch.object(module.service, "get_model_uri", uri), \
                        unittest.mock.patch.object(module.service.checked_model, "load",
                                                   lambda *_, one=model: one):
                    served = getattr(module, name)(settings())
                    if kind == own:
                        self.assertTrue(asyncio.run(served.load()))
                        continue
                    with self.assertRaisesRegex(ValueError, f"m.pt: is {kind} .want {own}."):
                        asyncio.run(served.load())

    def test_the_image_holds_every_module_of_the_service(self):
        dockerfile = (ROOT / "docker/serve.Dockerfile").read_text()
        for module in (ROOT / "jobs/serving").glob("*.py"):
            self.assertIn(f" {module.name} ", dockerfile)

    def test_a_refusal_reaches_the_client_with_its_status(self):
        with self.assertRaises(ServerError) as caught:
            asyncio.run(detector(max_pictures=1).predict(request(jpeg(), jpeg())))
        self.assertEqual(caught.exception.status_code, 413)

    def test_the_metadata_tell_the_limits(self):
        metadata = asyncio.run(detector(max_pictures=7).metadata())
        self.assertEqual(vars(metadata.parameters), {
            "max_requests": 16, "max_body_seconds": 60, "max_pictures": 7, "max_picture_pixels": 50_000_000,
            "max_request_pixels": 200_000_000, "max_body_bytes": 32 << 20})
        page = (ROOT / "jobs/serving/README.md").read_text()
        for name, default in vars(asyncio.run(detector().metadata()).parameters).items():
            self.assertIn(f"| `{name}` | {default:,} |", page)

    def test_a_setting_that_is_no_limit_is_refused(self):
        for extra, text in (({"max_picture": 3}, "no max_picture (there are max_requests"),
                            ({"max_pictures": 0}, "max_pictures: 0"),
                            ({"max_pictures": "8"}, "max_pictures: '8'"),
                            ({"max_body_bytes": True}, "max_body_bytes: True")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, re.escape(text)):
                detector(**extra)

    def test_what_is_no_picture_is_the_clients_mistake(self):
        good = jpeg()
        for sent, text in ((request(3), "image[0]: int (want a JPEG as base64)"),
                           (request("###"), "image[0]: neither JPEG bytes nor base64"),
                           (request(b"hello"), "image[0]: not a JPEG (5 bytes)"),
                           (request(good, good[:len(good) // 2]), "image[1]: "),
                           (request(good, shape=[2]), "1 elements in a tensor of shape [2]"),
                           (request(good, shape=[1] * 1000), "1 elements in a tensor of shape ["),
                           (request(good, datatype="UINT8"), "image: datatype UINT8"),
                           (request(shape=[0]), "0 elements")):
            with self.subTest(text), self.refused(400, text):
                detector()._outputs(sent)

    def test_data_may_be_nested_deeply(self):
        nested = jpeg()
        sent = request(nested)
        for _ in range(5000):
            sent.inputs[0].data.root = [sent.inputs[0].data.root]
        model = detector()
        model._outputs(sent)
        self.assertEqual(model.seen, (192,))

    def test_planes_are_those_of_pillows_rgb(self):
        image = wheel("PIL.Image")
        for mode in ("RGB", "L", "CMYK"):
            data = io.BytesIO()
            image.radial_gradient("L").resize((30, 20)).convert("RGB").convert(mode).save(
                data, "JPEG")
            [file] = self.pictures.jpegs_of(
                [self.pictures.Tensor("image", "BYTES", [1], [data.getvalue()])],
                self.pictures.Limits())
            pixels = image.open(data).convert("RGB").tobytes()
            self.assertEqual(bytes(self.pictures.decoded(file)),
                             pixels[0::3] + pixels[1::3] + pixels[2::3], mode)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        print(peak_kib(int(sys.argv[2])))
    else:
        sys.exit(unittest.main())
