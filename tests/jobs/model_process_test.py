"""A model's process (jobs/serving/model_program.py) and the server's hold on it (model_process.py),
without ONNX Runtime: stand_in_model.py does what an image asks for. onnx_model.py's check of files.
"""
import asyncio
import contextlib
import importlib
import io
import os
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
from pathlib import Path

from job_files import ROOT, decoder, wheel

sys.path.insert(0, str(ROOT / "jobs/serving"))
HERE = Path(__file__).resolve().parent
FINDS, HANGS, CRASHES, FAILS, EATS = 0, 50, 100, 150, 200  # as in stand_in_model.py


def jpeg(grey=FINDS, width=8, height=8):
    file = io.BytesIO()
    wheel("PIL.Image").new("RGB", (width, height), (grey,) * 3).save(file, "JPEG", quality=95)
    return file.getvalue()


def with_scans(count):
    """A progressive JPEG of so many scans and a few more."""
    file = io.BytesIO()
    wheel("PIL.Image").new("RGB", (8, 8)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + data[-2:]


class Parts(unittest.TestCase):
    def setUp(self):
        wheel("PIL.Image")
        decoder()
        self.request, self.program, self.process, self.onnx = map(
            importlib.import_module, ("request", "model_program", "model_process", "onnx_model"))

    def piped(self, requests, run, kind="classifier", size=None, **limits):
        """What the program says to `requests` that are there at once, each what its pipeline takes: JPEGs and a tiling."""
        limits = self.request.Limits(**{"max_batch_images": 1} | limits)
        sent, arrived = [], threading.Semaphore(0)

        def send(message):
            sent.append(message)
            if "tiles_left" not in message:
                arrived.release()

        model = types.SimpleNamespace(kind=kind, names=["cat"], ids=[1], size=size, run=run)
        pipeline = self.program.Pipeline(model, limits, send)
        for request in requests:
            pipeline.add(*request)
        for _ in requests:
            self.assertTrue(arrived.acquire(timeout=60))
        return sent


class ModelPipeline(Parts):
    """What the program makes of requests, in this process."""

    def answers(self, requests, run=lambda images, height, width: [([1.0],)] * len(images), **limits):
        return self.piped([[elements] for elements in requests], run, **limits)

    def watched(self, requests, batch_images):
        """The sizes of the batches that the model got, and how many decoded images there were at most."""
        lock, held, most, batches = threading.Lock(), [], [0], []
        started, decode = threading.Event(), self.program.decoded

        def decoded(file, max_seconds):
            with lock:
                held.append(1)
                most[0] = max(most[0], len(held))
            return decode(file, max_seconds)

        def run(images, height, width):
            started.wait(0.2)  # for the others to come, if they may
            batches.append((len(images), width))
            with lock:
                del held[:len(images)]
            return [([1.0],)] * len(images)

        with unittest.mock.patch.object(self.program, "decoded", decoded):
            self.answers(requests, run, max_batch_images=batch_images)
        return batches, most[0]

    def test_many_requests_hold_two_decoded_images_at_most(self):
        batches, most = self.watched([[jpeg(), jpeg()]] * 4, 1)
        self.assertEqual((batches, most), ([(1, 8)] * 8, 2))

    def test_decoded_images_have_no_more_pixels_than_two_of_the_largest(self):
        room = self.program.Room(self.request.Limits(max_batch_images=8, max_image_pixels=100))
        for pixels in (100, 50, 50):
            room.take(pixels)
        one_more = threading.Thread(target=room.take, args=[1], daemon=True)
        one_more.start()
        one_more.join(0.1)
        self.assertTrue(one_more.is_alive())
        room.give(50)
        one_more.join(60)
        self.assertFalse(one_more.is_alive())

    def test_images_of_one_size_that_wait_share_a_batch_and_none_overtakes_another(self):
        widths = [8, 8, 8, 16, 8, 8]
        batches, most = self.watched([[jpeg(width=width)] for width in widths], 4)
        self.assertLessEqual(most, 8)
        self.assertEqual([width for count, width in batches for _ in range(count)], widths)
        self.assertGreater(max(count for count, _ in batches), 1)

    def test_answers_have_the_order_of_the_requests(self):
        def run(images, height, width):
            return [([1 / width],)] * len(images)
        requests = [[jpeg(width=width)] if width % 3 else [b"\xff\xd8"] for width in range(8, 32)]
        answers = self.answers(requests, run)
        found = [round(1 / answer["outputs"][0]["data"][0]) if "outputs" in answer else 0
                 for answer in answers]
        self.assertEqual(found, [width if width % 3 else 0 for width in range(8, 32)])

    def test_an_image_has_half_of_its_time_for_decoding(self):
        with unittest.mock.patch.object(self.program, "decoded", return_value=bytes(192)) as decode:
            self.answers([[jpeg()]], max_image_seconds=7)
        self.assertEqual(decode.call_args.args[1], 3.5)

    def test_an_answer_over_a_limit_is_refused(self):
        refused = self.request.Refused(413, "answer: too large")
        with unittest.mock.patch.dict(self.program.ANSWERS,
                                      classifier=unittest.mock.Mock(side_effect=refused)):
            self.assertEqual(self.answers([[jpeg()]] * 2),
                             [{"status": 413, "problem": "answer: too large"}] * 2)

    def test_one_bad_image_refuses_its_request_alone(self):
        good = jpeg()
        answers = self.answers([[good], [good, good[:len(good) // 2]], [good]])
        self.assertEqual([answer.get("status") for answer in answers], [None, 400, None])
        self.assertIn("image[1]: ", answers[1]["problem"])

    def test_the_models_time_is_told_for_each_image(self):
        [answer] = self.answers([[jpeg(), jpeg()]])
        self.assertEqual(len(answer["seconds"]), 2)


class ModelAnswers(unittest.TestCase):
    def setUp(self):
        self.answers = importlib.import_module("answers")

    def outputs(self, kind, results, names, ids):
        found = self.answers.ANSWERS[kind](results, names, ids)
        self.assertEqual([output["name"] for output in found], self.answers.NAMES[kind])
        return {output["name"]: output for output in found}

    def test_detections_are_padded_to_the_most_of_an_image(self):
        found = self.outputs("detector", [([[1.0, 2.0, 3.0, 4.0]], [0.5], [1]), ([], [], [])],
                             ["cat", "dog"], [3, 9])
        self.assertEqual(found["boxes"]["shape"], [2, 1, 4])
        self.assertEqual({name: output["data"] for name, output in found.items()}, {
            "boxes": [1.0, 2.0, 3.0, 4.0] + [0.0] * 4, "scores": [0.5, 0.0], "labels": [1, 0],
            "category_ids": [9, 0], "category_names": ["dog", ""], "counts": [1, 0]})

    def test_the_padding_of_an_answer_has_a_bound(self):
        request = importlib.import_module("request")
        one = ([[0.0] * 4] * 8000, [0.5] * 8000, [0] * 8000)
        self.outputs("detector", [one] + [([], [], [])] * 24, ["cat"], [1])
        with self.assertRaises(request.Refused) as caught:
            self.outputs("detector", [one] + [([], [], [])] * 25, ["cat"], [1])
        self.assertEqual((caught.exception.status, str(caught.exception)), (
            413, "answer: 26 images with up to 8000 detections (the limit is 200000 in all); hint: send "
            "fewer images at a time"))

    def test_a_classifier_names_the_best_classes_of_each_image(self):
        found = self.outputs("classifier", [([0.2, 0.1, 0.7],), ([0.4, 0.4, 0.2],)],
                             ["cat", "dog", "cow"], [3, 5, 9])
        self.assertEqual({name: output["data"] for name, output in found.items()}, {
            "scores": [0.7, 0.2, 0.1, 0.4, 0.4, 0.2], "labels": [2, 0, 1, 0, 1, 2],
            "category_ids": [9, 3, 5, 3, 5, 9],
            "category_names": ["cow", "cat", "dog", "cat", "dog", "cow"]})
        self.assertTrue(all(output["shape"] == [2, 3] for output in found.values()))
        found = self.outputs("classifier", [([0.1] * 9,)], list("abcdefghi"), list(range(9)))
        self.assertEqual(found["labels"]["data"], [0, 1, 2, 3, 4])


class ModelProcess(Parts):
    """A process that runs, with a stand-in of the model."""

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(self.process, "PROGRAM", HERE / "stand_in_model.py")
        patch.start()
        self.addCleanup(patch.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "model.onnx"

    def run_on(self, ask, how="", is_trusted=False, **limits):
        """`ask`, an asynchronous function of the running model."""
        async def started():
            model = self.process.ModelProcess(self.model, is_trusted, self.request.Limits(**limits))
            found = await model.start()
            try:
                return await ask(model, found)
            finally:
                await model.stop()

        self.model.write_text(how)
        return asyncio.run(started())

    def starts(self):
        return self.model.read_text().count("start")

    async def refusal(self, model, *greys):
        try:
            await model.ask([jpeg(grey) for grey in greys])
        except self.request.Refused as refused:
            self.assertNotIn("\n", str(refused))
            return refused.status, str(refused)
        return None

    def test_answers_what_the_model_finds(self):
        async def ask(model, found):
            self.assertEqual(found["kind"], "classifier")
            self.assertIsNone(found["warning"])
            outputs, seconds = await model.ask([jpeg(width=10), jpeg(width=10)])
            self.assertEqual(outputs[0], {"name": "scores", "datatype": "FP32", "shape": [2, 2],
                                          "data": [0.9, 0.1] * 2})
            self.assertEqual(len(seconds), 2)
        self.run_on(ask)

    def test_requests_are_answered_in_the_order_of_their_arrival(self):
        async def ask(model, _):
            order = []

            async def one(width):
                await model.ask([jpeg(width=width)])
                order.append(width)
            await asyncio.gather(*map(one, range(8, 32)))
            self.assertEqual(order, list(range(8, 32)))
        self.run_on(ask)

    def test_a_model_that_is_refused_says_why(self):
        with self.assertRaisesRegex(self.process.ModelRefused, "^node 7 is a Loop$"):
            self.run_on(None, "refused")

    def test_a_model_that_crashes_while_it_loads_is_refused(self):
        with self.assertRaisesRegex(self.process.ModelRefused, "ended by SIGABRT while it loaded"):
            self.run_on(None, "crashes")

    def test_a_model_that_does_not_load_in_time_is_refused(self):
        with self.assertRaisesRegex(self.process.ModelRefused, "did not load in 1 seconds"):
            self.run_on(None, "hangs", max_load_seconds=1)

    def test_a_trusted_model_comes_with_a_warning(self):
        async def ask(model, found):
            self.assertEqual(found["warning"], "not ours")
        self.run_on(ask, is_trusted=True)

    def test_a_crash_costs_its_request_and_the_next_one_is_answered(self):
        async def ask(model, _):
            self.assertEqual(await self.refusal(model, CRASHES),
                             (500, "the model failed: its process was ended by SIGABRT"))
            self.assertIsNone(await self.refusal(model, FINDS))
        self.run_on(ask)
        self.assertEqual(self.starts(), 2)

    def test_requests_behind_one_that_crashes_are_answered(self):
        async def ask(model, _):
            found = await asyncio.gather(*(self.refusal(model, grey)
                                           for grey in (FINDS, CRASHES, FINDS, FINDS, FINDS)))
            self.assertEqual([status is None for status in found], [True, False, True, True, True])
        self.run_on(ask)

    def test_a_model_that_hangs_is_ended_and_started_again(self):
        async def ask(model, _):
            status, text = await self.refusal(model, HANGS)
            self.assertEqual(status, 500)
            self.assertIn("took longer than 1 seconds (the limit is max_image_seconds)", text)
            self.assertIsNone(await self.refusal(model, FINDS))
        self.run_on(ask, max_image_seconds=1)

    def test_images_that_take_too_long_to_decode_are_no_failures_of_the_model(self):
        async def ask(model, _):
            for _ in range(self.process.RESTARTS + 1):
                with self.assertRaises(self.request.Refused) as caught:
                    await model.ask([with_scans(600)])
                self.assertEqual((caught.exception.status, str(caught.exception)),
                                 (400, "image[0]: more than 500 scans"))
            self.assertIsNone(await self.refusal(model, FINDS))
        self.run_on(ask)
        self.assertEqual(self.starts(), 1)

    def test_too_much_memory_is_an_error_and_no_end(self):
        async def ask(model, _):
            self.assertEqual((await self.refusal(model, EATS))[0], 500)
            self.assertIsNone(await self.refusal(model, FINDS))
        self.run_on(ask)
        self.assertEqual(self.starts(), 1)

    def test_a_model_that_fails_says_why_and_goes_on(self):
        async def ask(model, _):
            self.assertEqual(await self.refusal(model, FAILS), (500, "the model failed (no kernel)"))
            self.assertIsNone(await self.refusal(model, FINDS))
        self.run_on(ask)
        self.assertEqual(self.starts(), 1)

    def test_a_model_that_goes_on_crashing_is_not_started_for_ever(self):
        async def ask(model, _):
            for _ in range(self.process.RESTARTS + 1):
                self.assertEqual((await self.refusal(model, CRASHES))[0], 500)
            status, text = await self.refusal(model, FINDS)
            self.assertEqual(status, 503)
            self.assertIn("failed 5 times in 10 minutes", text)
        self.run_on(ask)
        self.assertEqual(self.starts(), 1 + self.process.RESTARTS)

    def test_a_model_that_does_not_start_again_is_an_error(self):
        async def ask(model, _):
            await self.refusal(model, CRASHES)
            status, text = await self.refusal(model, FINDS)
            self.assertEqual(status, 500)
            self.assertIn("the model does not start again: its process was ended by SIGABRT", text)
        self.run_on(ask, "crashes later")

    def test_nothing_is_asked_of_a_model_that_was_unloaded(self):
        async def ask(model, _):
            await model.stop()
            self.assertEqual((await self.refusal(model, FINDS))[0], 503)
        self.run_on(ask)


class ModelGuard(Parts):
    """Which library checks model files, and what comes of its answer."""

    def test_a_reason_is_one_line_without_the_files_name(self):
        def check(data, size, reason, space):
            reason.value = b"model: node 7 is\na Loop"
            return 65
        library = importlib.import_module("library")
        with unittest.mock.patch.object(library, "function", lambda name: check):
            self.assertEqual(self.onnx.refusal(b"file"), "node 7 is a Loop")
        with unittest.mock.patch.object(library, "function", lambda name: lambda *_: 0):
            self.assertIsNone(self.onnx.refusal(b"file"))

    def test_without_the_library_the_next_step_is_told(self):
        for path, text in (("/nowhere/guard.so", "guard.so: the library is not there; hint: cmake "
                            "--build build --target retina_onnx_guard"),
                           (__file__, "is not this version's library")):
            with unittest.mock.patch.dict(os.environ, RETINA_ONNX_GUARD=path), \
                    self.assertRaisesRegex(self.onnx.BadModel, text):
                self.onnx.refusal(b"file")

    def checked(self, reason, is_trusted):
        """What becomes of a file; the model itself is a stand-in that is given the file's bytes."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            (Path(folder) / "m.onnx").write_bytes(b"the file")
            for place, name, value in (
                    (self.program, "refusal", unittest.mock.Mock(**reason)),
                    (self.program, "OnnxModel", lambda data: data),
                    (self.program.resource, "setrlimit", unittest.mock.Mock())):
                patches.enter_context(unittest.mock.patch.object(place, name, value))
            limits = self.request.Limits(max_model_bytes=1000)
            model, warning = self.program.checked(Path(folder) / "m.onnx", is_trusted, limits)
            return model, warning, self.program.resource.setrlimit.call_args_list

    def test_a_model_of_ours_has_no_limit_of_memory(self):
        for is_trusted in (False, True):
            self.assertEqual(self.checked({"return_value": None}, is_trusted),
                             (b"the file", None, []))

    def test_another_model_is_refused_or_runs_within_limits_and_with_a_warning(self):
        reason = {"return_value": "has a Loop"}
        with self.assertRaisesRegex(self.onnx.BadModel, "has a Loop"):
            self.checked(reason, is_trusted=False)
        model, warning, limits = self.checked(reason, is_trusted=True)
        self.assertEqual(model, b"the file")
        self.assertEqual(warning, "has a Loop; served all the same, since RETINA_TRUST_MODELS=1")
        self.assertEqual([call.args for call in limits],
                         [(self.program.resource.RLIMIT_DATA, (1000, 1000))])

    def test_without_the_library_which_decodes_too_nothing_is_served(self):
        no_library = {"side_effect": self.onnx.BadModel("the library is not there")}
        for is_trusted in (False, True):
            with self.assertRaisesRegex(self.onnx.BadModel, "the library is not there"):
                self.checked(no_library, is_trusted)

    def test_a_file_that_is_not_there_is_told(self):
        with self.assertRaisesRegex(self.onnx.BadModel, "cannot be read .No such file"):
            self.program.checked("/nowhere/m.onnx", False, None)


if __name__ == "__main__":
    sys.exit(unittest.main())
