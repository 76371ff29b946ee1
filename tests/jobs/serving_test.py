"""The service (jobs/serving) and its limits, without MLServer: stand-ins have the names that
retina_service.py uses of it. What the real one does is tests/oracle's to show; the model's process has a
test of its own (model_process_test.py).
"""
import asyncio
import base64
import contextlib
import importlib
import io
import re
import struct
import sys
import types
import unittest
import unittest.mock

from job_files import ROOT, decoder, wheel

sys.path.insert(0, str(ROOT / "jobs/serving"))
DETECTOR = ["boxes", "scores", "labels", "category_ids", "category_names", "counts"]


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


class Process:
    """In model_process.ModelProcess' place: the images of each request, and what it shall find."""

    def __init__(self, path, is_trusted, limits):
        self.path, self.is_trusted, self.limits = path, is_trusted, limits
        self.asked, self.tilings = [], []
        self.found = {"kind": "detector", "outputs": DETECTOR, "provider": "CPU", "warning": None}

    async def start(self):
        return self.found

    async def stop(self):
        self.found = None

    async def ask(self, elements, tiling=None):
        self.asked.append(elements)
        self.tilings.append(tiling)
        return ([{"name": name, "datatype": "FP32", "shape": [0], "data": []}
                 for name in self.found["outputs"]], [0.5] * len(elements))


def service():
    """retina_service between stand-ins; its outputs and Parameters are what they are given."""
    server = unittest.mock.MagicMock(MLModel=Model)
    server.errors.MLServerError = ServerError
    server.rest.requests.Request = Request
    server.rest.errors.Response = Response
    server.types.Parameters = server.types.ResponseOutput = types.SimpleNamespace
    server.types.InferenceResponse = types.SimpleNamespace
    parts = {f"mlserver.{name}": getattr(server, name)
             for name in ("cloudevents", "errors", "grpc", "handlers", "logging", "raw", "rest", "types",
                          "utils")}
    parts |= {"mlserver.grpc.converters": server.grpc.converters,
              "mlserver.grpc.utils": server.grpc.utils, "mlserver.rest.app": server.rest.app,
              "mlserver.rest.errors": server.rest.errors,
              "mlserver.rest.requests": server.rest.requests,
              "connections": unittest.mock.MagicMock(),  # has a test of its own
              "prometheus_client": unittest.mock.MagicMock(),
              "fastapi": types.SimpleNamespace(HTTPException=HttpError)}
    for name in ("admission", "model_process"):
        importlib.import_module(name)  # stays when the stand-ins go

    async def uri(*_, **__):
        return "m.onnx"

    server.utils.get_model_uri = uri
    with unittest.mock.patch.dict(
            sys.modules, parts | {"mlserver": server, "grpc": server.grpc}):
        sys.modules.pop("retina_service", None)
        module = importlib.import_module("retina_service")
        module.ModelProcess = Process
        return module


def settings(**extra):
    return types.SimpleNamespace(
        name="coco", parameters=types.SimpleNamespace(extra=extra),
        outputs=[types.SimpleNamespace(name=name) for name in DETECTOR])


def loaded(module=None, **extra):
    """A model that is ready to be asked."""
    model = (module or service()).RetinaService(settings(**extra))
    asyncio.run(model.load())
    return model


def request(*elements, shape=None, datatype="BYTES", outputs=None, **parameters):
    """As MLServer gives it, of JPEGs as bytes or of what else JSON holds."""
    data = [base64.b64encode(one).decode() if isinstance(one, bytes) else one for one in elements]
    return types.SimpleNamespace(
        id="1", outputs=outputs,
        parameters=types.SimpleNamespace(**parameters) if parameters else None, inputs=[types.SimpleNamespace(
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


class Refusals(unittest.TestCase):
    def setUp(self):
        wheel("PIL.Image")
        decoder()
        self.images, self.request = map(importlib.import_module, ("images", "request"))

    @contextlib.contextmanager
    def refused(self, status, text):
        with self.assertRaises(self.request.Refused) as caught:
            yield
        self.assertEqual(caught.exception.status, status)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))


class ServedRequests(Refusals):
    """request.py and images.py: what is refused, and what is decoded."""

    def jpegs(self, sent, size=None, **limits):
        limits = self.request.Limits(**limits)
        tensors = [self.request.Tensor(tensor.name, tensor.datatype, tensor.shape, tensor.data.root)
                   for tensor in sent.inputs]
        return self.images.jpegs_of(self.request.elements_of(tensors, limits), limits, size)

    def decoded(self, sent, **limits):
        return [self.images.decoded(jpeg, 60) for jpeg in self.jpegs(sent, **limits)]

    def test_a_request_over_a_limit_is_refused_before_an_image_is_decoded(self):
        small, large = jpeg(), claiming(1000, 1001)
        for sent, text in (
                (request(*[small] * 4), "image: more than 3 images (the limit)"),
                (request(small, large), "image[1]: 1000x1001 pixels (the limit is 10"),
                (request(small, claiming(65500, 65500)), "65500x65500 pixels"),
                (request(*[claiming(900, 900)] * 2), "image: 1620000 pixels in all (the"),
                (request(small, small + b"0" * 9000), "bytes (the limit is 9000)")):
            with self.subTest(text), self.refused(413, text):
                self.jpegs(sent, max_images=3, max_image_pixels=1_000_000,
                           max_request_pixels=1_500_000, max_body_bytes=9000)

    def test_what_fits_the_limits_exactly_is_taken(self):
        file = jpeg(20, 10)
        sent = len(base64.b64encode(file))
        planes = self.decoded(request(file, file), max_images=2, max_image_pixels=200,
                              max_request_pixels=400, max_body_bytes=2 * sent)
        self.assertEqual(list(map(len, planes)), [600, 600])

    def test_base64_is_not_decoded_when_it_is_too_long(self):
        with unittest.mock.patch.object(self.images.base64, "b64decode") as decode, \
                self.refused(413, "image: 104 bytes (the limit is 100)"):
            self.jpegs(request(b"x" * 39, b"y" * 39), max_body_bytes=100)
        decode.assert_not_called()

    def test_raw_jpegs_count_as_much_as_base64(self):
        files = request()
        files.inputs[0].data.root, files.inputs[0].shape = [jpeg()], [1]
        size = len(jpeg())
        self.jpegs(files, max_body_bytes=size)
        with self.refused(413, f"image: {size} bytes (the limit is {size - 1})"):
            self.jpegs(files, max_body_bytes=size - 1)

    def test_a_model_of_one_size_takes_no_other(self):
        self.jpegs(request(jpeg(20, 10)), size=(10, 20))
        with self.refused(400, "image[1]: 10x20 pixels (this model takes 20x10 only)"):
            self.jpegs(request(jpeg(20, 10), jpeg(10, 20)), size=(10, 20))

    def test_what_is_no_image_is_the_clients_mistake(self):
        good = jpeg()
        for sent, text in ((request(3), "image[0]: int (want a JPEG as base64)"),
                           (request("###"), "image[0]: neither JPEG bytes nor base64"),
                           (request(b"\x89PNG\r\n"), "image[0]: not a JPEG but a PNG file"),
                           (request(b"hello"), "image[0]: not a JPEG nor a file of another"),
                           (request(good, good[:len(good) // 2]), "image[1]: "),
                           (request(good, shape=[2]), "1 elements in a tensor of shape [2]"),
                           (request(good, shape=[1] * 1000), "1 elements in a tensor of shape ["),
                           (request(good, datatype="UINT8"), "image: datatype UINT8"),
                           (request(shape=[0]), "0 elements")):
            with self.subTest(text), self.refused(400, text):
                self.decoded(sent)

    def test_data_may_be_nested_deeply(self):
        sent = request(jpeg())
        for _ in range(5000):
            sent.inputs[0].data.root = [sent.inputs[0].data.root]
        self.assertEqual(list(map(len, self.decoded(sent))), [192])

    def test_base64_may_have_line_breaks(self):
        sent = base64.encodebytes(jpeg(200, 100)).decode()
        self.assertIn("\n", sent.rstrip())
        self.assertEqual(list(map(len, self.decoded(request(sent)))), [3 * 200 * 100])

    def test_planes_are_those_of_pillows_rgb(self):
        image = wheel("PIL.Image")
        for mode in ("RGB", "L", "CMYK"):
            data = io.BytesIO()
            image.radial_gradient("L").resize((30, 20)).convert("RGB").convert(mode).save(
                data, "JPEG")
            [planes] = self.decoded(request(data.getvalue()))
            pixels = image.open(data).convert("RGB").tobytes()
            self.assertEqual(bytes(planes), pixels[0::3] + pixels[1::3] + pixels[2::3], mode)

    def test_decoding_has_an_end(self):
        [file] = self.jpegs(request(jpeg()))
        self.images.decoded(file, 60)
        with self.refused(400, "image[0]: takes longer than 0 seconds to decode"):
            self.images.decoded(file, 0)

    def test_a_setting_that_is_no_limit_is_refused(self):
        for extra, text in (({"max_image": 3}, "no max_image (there are max_requests"),
                            ({"max_images": 0}, "max_images: 0"),
                            ({"max_images": "8"}, "max_images: '8'"),
                            ({"max_batch_images": -1}, "max_batch_images: -1 (want a whole number from 0"),
                            ({"max_body_bytes": True}, "max_body_bytes: True")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, re.escape(text)):
                self.request.Limits.of_settings(extra)


class ServedModel(Refusals):
    """retina_service.py between MLServer's stand-ins and a stand-in of the model's process."""

    def predicted(self, model, sent):
        return asyncio.run(model.predict(sent))

    def test_the_model_gets_the_elements_and_its_outputs_are_the_answer(self):
        model = loaded()
        answer = self.predicted(model, request(b"one", b"two"))
        self.assertEqual(model._model.asked, [[base64.b64encode(b"one"), base64.b64encode(b"two")]])
        self.assertEqual([output.name for output in answer.outputs], DETECTOR)
        self.assertEqual((answer.id, answer.model_name, answer.model_version), ("1", "coco", "1"))

    def test_texts_are_bytes_in_the_answer(self):
        model = loaded()
        names = {"name": "category_names", "datatype": "BYTES", "shape": [2], "data": ["cat", "\xe9"]}
        model._model.ask = unittest.mock.AsyncMock(return_value=([names], [0.5]))
        [output] = self.predicted(model, request(b"one", outputs=[
            types.SimpleNamespace(name="category_names")])).outputs
        self.assertEqual(output.data, [b"cat", "\xe9".encode()])  # JSON gets texts of these

    def test_some_outputs_can_be_asked_for_and_others_are_not_there(self):
        model = loaded()
        answer = self.predicted(model, request(b"one", outputs=[
            types.SimpleNamespace(name="counts"), types.SimpleNamespace(name="scores")]))
        self.assertEqual([output.name for output in answer.outputs], ["counts", "scores"])
        for names, text in ((["masks"], "outputs: no masks (there are boxes, scores"),
                            (["counts", "counts"], "outputs: twice counts (there are boxes, scores"),
                            (DETECTOR * 100, "outputs: twice boxes (")):
            with self.subTest(text), self.assertRaisesRegex(ServerError, "^" + re.escape(text)):
                self.predicted(model, request(b"one", outputs=[
                    types.SimpleNamespace(name=name) for name in names]))
        self.assertEqual(len(model._model.asked), 1)

    def test_a_request_over_grpc_is_counted_before_it_is_converted(self):
        module = service()
        loaded(module, max_values=10)
        part = types.SimpleNamespace

        def contents(*values):
            return part(ListFields=lambda: [("bytes_contents", values)] if values else [])

        def sent(inputs=(), outputs=(), parameters=(), raw=()):
            return part(model_name="coco", inputs=inputs, outputs=outputs, parameters=parameters,
                        raw_input_contents=raw)

        def tensor(shape=(1,), parameters=(), values=(b"JPEG",)):
            return part(shape=shape, parameters=parameters, contents=contents(*values))

        for fine in (sent([tensor()], [part(parameters=[])] * 6), sent([tensor()] * 5)):
            self.assertIs(module.checked_request(fine), module.TO_TYPES.return_value)
        module.TO_TYPES.reset_mock()
        for many in (sent([tensor()] * 11), sent([tensor()], [part(parameters=[])] * 11),
                     sent([tensor(shape=[1] * 11)]), sent([tensor(parameters="a" * 11)]),
                     sent([tensor(values=[b""] * 11)]), sent([tensor()], parameters="a" * 11),
                     sent([tensor()], [part(parameters="a" * 11)]), sent([tensor()], raw=[b""] * 11)):
            with self.assertRaisesRegex(ServerError, "^body: [0-9]+ values .the limit is 10.$") as caught:
                module.checked_request(many)
            self.assertEqual(caught.exception.status_code, 413)
        module.TO_TYPES.assert_not_called()

    def test_raw_tensors_are_unpacked_without_believing_them(self):
        unpacked = service().unpacked
        for datatype, raw, elements in (
                ("BYTES", b"\3\0\0\0abc\1\0\0\0d", [b"abc", b"d"]), ("BYTES", b"", []),
                ("BYTES", b"\xff\xff\xff\xffabc", [b"abc"]), ("BYTES", b"\3", [b""]),
                ("BYTES", bytes(400_000), [b""] * 10_000), ("INT8", b"abcd", [])):
            tensor = types.SimpleNamespace(datatype=datatype, shape=[1 << 62] * 1000)
            self.assertEqual(unpacked(tensor, raw), elements)

    def test_an_id_is_in_the_headers_only_where_they_can_hold_it(self):
        module = service()
        for request_id, expected in (("plain-1", "plain-1"), ("x" * 200, "x" * 200)):
            module.headers_of("events", "kind", "settings", request_id)
            self.assertEqual(module.GET_HEADERS.call_args.args[3], expected)
        for request_id in ("\u65e5\u672c", "\xe9", "a\r\nX: y", " a", "a\n", "\0", "x" * 201, "", None):
            module.headers_of("events", "kind", "settings", request_id)
            self.assertFalse(module.GET_HEADERS.call_args.args[3])

    def test_metrics_do_not_keep_the_names_of_models_that_are_not_there(self):
        module, seen = service(), []

        @contextlib.asynccontextmanager
        async def labelled(plane, name, version):
            seen.append((name, version))
            yield "model"

        async def get_model(name, version):
            if name != "coco":
                raise ServerError("not there", 404)

        async def ask(name, version=None):
            plane = types.SimpleNamespace(_model_registry=types.SimpleNamespace(get_model=get_model))
            async with module.measured(plane, name, version) as model:
                return model

        with unittest.mock.patch.object(module, "MEASURED", labelled):
            self.assertEqual(asyncio.run(ask("coco", "1")), "model")
            with self.assertRaises(ServerError):
                asyncio.run(ask("made up"))
        self.assertEqual(seen, [("coco", "1")])

    def test_tiles_are_asked_for_by_a_requests_parameters(self):
        model = loaded()
        for parameters, wanted in (({}, None), ({"content_type": "x"}, None),
                                   ({"tile": 800}, (800, 0.2)),
                                   ({"tile": 64, "tile_overlap": 0}, (64, 0)),
                                   ({"tile": "800", "tile_overlap": "0.25"}, (800, 0.25))):
            self.predicted(model, request(b"one", **parameters))
            self.assertEqual(model._model.tilings.pop(), wanted)
        side, overlap = "want a whole number from 32 to 16384", "want a number from 0 to 0.9"
        for parameters, text in (({"tile": 31}, f"tile: 31 ({side})"), ({"tile": True}, side),
                                 ({"tile": 100.5}, side), ({"tile": "a"}, side), ({"tile": [1]}, side),
                                 ({"tile": 1e300}, side), ({"tile": float("nan")}, side),
                                 ({"tile": 99, "tile_overlap": 0.95}, f"tile_overlap: 0.95 ({overlap})"),
                                 ({"tile": 99, "tile_overlap": float("nan")}, overlap),
                                 ({"tile_overlap": 0.2}, "has no effect without tile; hint: give tile")):
            with self.subTest(text), self.assertRaises(ServerError) as caught:
                self.predicted(model, request(b"one", **parameters))
            self.assertEqual(caught.exception.status_code, 400)
            self.assertIn(text, str(caught.exception))

    def test_the_http_server_asks_the_models_own_admission(self):
        module = service()
        loaded(module, max_body_bytes=1000)

        def body(model, content, **headers):
            sent = module.BoundedRequest(headers, content, model_name=model)
            return asyncio.run(sent.body())

        self.assertEqual(body("coco", b"{}", **{"content-length": "2"}), b"{}")
        with self.assertRaises(ServerError) as caught:
            body("coco", b"", **{"content-length": "1001"})
        self.assertEqual(caught.exception.status_code, 413)
        self.assertEqual(str(caught.exception), "body: 1001 bytes (the limit is 1000); hint: send "
                         "fewer images at a time")
        # FastAPI makes 400 of any other error that a body raises.
        self.assertIsInstance(caught.exception, HttpError)
        self.assertEqual(body("another", b"x", **{"content-length": "1001"}), b"x")
        with self.assertRaises(ServerError):
            body("another", b"", **{"transfer-encoding": "chunked"})

    def test_a_refusal_for_now_says_when_to_come_back(self):
        module = service()
        answer = module.mlserver.rest.errors.Response
        self.assertEqual(answer(content={}, status_code=503).headers, {"Retry-After": "1"})
        self.assertEqual(answer(content={}, status_code=400).headers, {})
        codes = module.STATUS_CODE_MAPPING.setdefault.call_args_list
        self.assertIn(unittest.mock.call(503, module.grpc.StatusCode.UNAVAILABLE), codes)

    def test_a_malformed_body_gets_one_line_and_nothing_of_it_back(self):
        error = types.SimpleNamespace(errors=lambda: [
            {"loc": ("body", "inputs", 0, "name"), "msg": "Field required", "input": "a" * 1000}])
        responses = types.SimpleNamespace(JSONResponse=lambda *parts: parts)
        with unittest.mock.patch.dict(sys.modules, {"fastapi.responses": responses}):
            answer = asyncio.run(importlib.import_module("serve").refuse_malformed(None, error))
        self.assertEqual(answer, ({"error": "body.inputs.0.name: Field required"}, 400))

    def test_more_requests_than_places_are_refused_while_the_others_are_answered(self):
        model = loaded(max_requests=3)
        ask = model._model.ask

        async def all_at_once():
            free = asyncio.Event()

            async def waiting(*asked):
                await free.wait()
                return await ask(*asked)

            model._model.ask = waiting
            sent = [asyncio.create_task(model.predict(request(b"one"))) for _ in range(5)]
            _, left = await asyncio.wait(sent, return_when=asyncio.FIRST_EXCEPTION)
            free.set()
            await asyncio.wait(left)
            await model.predict(request(b"one"))
            return [task.exception() for task in sent]

        errors = asyncio.run(all_at_once())
        self.assertEqual(errors[:3], [None] * 3)
        self.assertEqual([error.status_code for error in errors[3:]], [503, 503])

    def test_a_client_that_hangs_up_keeps_its_place_until_the_model_is_done(self):
        model = loaded(max_requests=1)
        ask = model._model.ask

        async def hang_up():
            free = asyncio.Event()

            async def waiting(*asked):
                await free.wait()
                return await ask(*asked)

            model._model.ask = waiting
            gone = asyncio.create_task(model.predict(request(b"one")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gone.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await gone
            with self.assertRaises(ServerError):
                await model.predict(request(b"two"))
            free.set()
            while model._admission.requests:
                await asyncio.sleep(0)
            await model.predict(request(b"three"))

        asyncio.run(hang_up())
        self.assertEqual(len(model._model.asked), 2)

    def test_a_refusal_lingers_where_the_body_has_not_arrived(self):
        module = service()
        loaded(module, max_body_bytes=1000)
        sent, lingering = [], module.connections.lingering

        async def send(message):
            sent.append(message)

        async def send_lingering(message):
            sent.append(f"lingering {message}")

        lingering.side_effect = lambda receive, send: send_lingering
        answer = module.ErrorResponse({}, 413)
        for headers, expected in (({"content-length": "1"}, "answer"),
                                  ({"content-length": "1001"}, "lingering answer")):
            asked = module.BoundedRequest(headers, b"x", model_name="coco")
            with contextlib.suppress(ServerError):
                asyncio.run(asked.body())
            asyncio.run(answer(asked.scope, None, send))
            self.assertEqual(sent.pop(), expected)

    def test_refusals_are_counted_by_model_and_status_and_not_logged(self):
        module = service()
        model, counter = loaded(module, max_body_bytes=1000), module.REFUSED
        with self.assertRaises(ServerError) as caught:
            self.predicted(model, request(3))
        for path in ("coco", "another"):
            with self.assertRaises(ServerError):
                asyncio.run(module.BoundedRequest(
                    {"transfer-encoding": "chunked"}, b"", model_name=path).body())
        self.assertEqual([call.args for call in counter.labels.call_args_list],
                         [("coco", 400), ("coco", 411), ("", 411)])
        self.assertEqual(counter.labels.return_value.inc.call_count, 3)
        self.assertFalse(module.in_one_line(
            types.SimpleNamespace(msg=caught.exception, exc_info=None)))
        self.assertTrue(module.in_one_line(
            types.SimpleNamespace(msg=ValueError("bug"), exc_info=None)))

    def test_a_model_that_is_refused_is_one_line_of_the_log(self):
        module, refused = service(), None
        with unittest.mock.patch.object(Process, "start", side_effect=module.ModelRefused("no seal")):
            with self.assertRaises(module.RefusedModel) as caught:
                loaded(module)
        refused = caught.exception
        self.assertEqual((str(refused), refused.status_code), ("m.onnx: no seal", 422))
        record = types.SimpleNamespace(msg="Some of %s failed", args=("them",),
                                       exc_info=(type(refused), refused, None))
        self.assertTrue(module.in_one_line(record))
        self.assertEqual((record.msg, record.args, record.exc_info), ("m.onnx: no seal", None, None))

    def test_files_that_are_no_models_of_ours_are_trusted_only_where_the_environment_says_so(self):
        for value, expected in (("1", True), ("0", False), ("", False)):
            with unittest.mock.patch.dict("os.environ", RETINA_TRUST_MODELS=value):
                self.assertEqual(loaded()._model.is_trusted, expected)

    def test_a_folder_serves_models_of_its_own_kind(self):
        module = service()
        found = Process("", False, None).found | {"kind": "classifier", "outputs": DETECTOR[1:5]}
        with unittest.mock.patch.object(Process, "start", unittest.mock.AsyncMock(return_value=found)):
            with self.assertRaisesRegex(module.RefusedModel, "m.onnx: is a classifier, and model-set"):
                loaded(module)

    def test_the_metadata_tell_the_limits(self):
        metadata = asyncio.run(loaded(max_images=7).metadata())
        told, defaults = vars(metadata.parameters), vars(self.request.Limits())
        self.assertEqual(told, defaults | {"max_images": 7})
        page = (ROOT / "jobs/serving/README.md").read_text()
        for name, default in defaults.items():
            self.assertIn(f"| `{name}` | {default:,} |", page)


if __name__ == "__main__":
    sys.exit(unittest.main())
