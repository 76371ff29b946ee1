"""Tiles in the server (jobs/serving/tiles.py and the model's process): the merging against the C++
program's, the pipeline with a stand-in model, and a whole request against retina-eval --tile.
"""
import asyncio
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import model_process_test
from job_files import ROOT, wheel

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("RETINA_BUILD", ROOT / "build"))


def program(name):
    path = BUILD / "bin" / name
    if not path.exists():
        raise unittest.SkipTest(f"{path} is missing")
    return path


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"


def as_results(image_id, boxes, scores, categories):
    """As a results file of retina-eval has them."""
    return [{"image_id": image_id, "category_id": category, "score": score,
             "bbox": [x1, y1, x2 - x1, y2 - y1]}
            for (x1, y1, x2, y2), score, category in zip(boxes, scores, categories, strict=True)]


class Parts(model_process_test.Parts):
    def setUp(self):
        super().setUp()
        self.numpy, self.tiles = wheel("numpy"), importlib.import_module("tiles")

    def same(self, ours, theirs, tolerance_px=0, tolerance=0):
        """Two lists of results, in the same order or near it."""
        self.assertEqual(len(ours), len(theirs))
        for one in ours:
            best = min((other for other in theirs if other["category_id"] == one["category_id"]),
                       key=lambda other: max(abs(a - b) for a, b in zip(one["bbox"], other["bbox"])))
            self.assertLessEqual(abs(one["score"] - best["score"]), tolerance)
            for a, b in zip(one["bbox"], best["bbox"]):
                self.assertLessEqual(abs(a - b), tolerance_px)


class TileMerging(Parts):
    IDS = [1, 7, 90]

    def tile_of(self, rng, rect):
        """What a network finds there: some boxes again in another tile, equal ones, some without area."""
        numpy = self.numpy
        count = int(rng.integers(0, 25))
        low = rng.uniform(0, 90, (count, 2))
        boxes = numpy.concatenate([low, low + rng.uniform(0, 60, (count, 2))], axis=1)
        boxes = numpy.where(rng.random((count, 1)) < .5, boxes.round(-1), boxes).astype(numpy.float32)
        scores = numpy.where(rng.random(count) < .5, rng.random(count), rng.integers(1, 5, count) / 5)
        order = numpy.argsort(-scores)
        return (boxes[order].tolist(), scores.astype(numpy.float32)[order].tolist(),
                rng.integers(0, 3, count).tolist())

    def test_is_that_of_retina_eval(self):
        merge_results = program("merge_results")
        seed = int.from_bytes(os.urandom(4), "little")
        rng = self.numpy.random.default_rng(seed)
        rects = self.tiles.tiles_of(300, 200, (150, .2))
        given, ours = [], []
        for image_id in range(200):
            found = [self.tile_of(rng, rect) for rect in rects]
            for (boxes, scores, labels), rect in zip(found, rects):
                for box, score, label in zip(boxes, scores, labels):
                    x1, y1, x2, y2 = map(self.numpy.float32, box)
                    given.append({"image_id": image_id, "category_id": self.IDS[label], "score": score,
                                  "bbox": [float(x1) + rect.x, float(y1) + rect.y, float(x2 - x1),
                                           float(y2 - y1)]})
            boxes, scores, labels = self.tiles.merge(found, rects, self.IDS)
            ours += as_results(image_id, boxes, scores, [self.IDS[label] for label in labels])
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rng.shuffle(given)
            (folder / "in.json").write_text(json.dumps(given))
            run(merge_results, folder / "in.json", folder / "out.json", "nms", "iou", "0.5")
            theirs = json.loads((folder / "out.json").read_text())
        self.assertLess(len(theirs), len(given))
        self.assertEqual([(one["image_id"], one["category_id"], one["score"]) for one in ours],
                         [(one["image_id"], one["category_id"], one["score"]) for one in theirs], seed)
        for one, other in zip(ours, theirs):
            self.numpy.testing.assert_allclose(one["bbox"], other["bbox"], rtol=0, atol=1e-10,
                                               err_msg=str(seed))

    def test_nothing_stays_nothing(self):
        self.assertEqual(self.tiles.merge([([], [], [])] * 2, [self.tiles.Rect(0, 0, 9, 9)] * 2, [1]),
                         ([], [], []))

    def test_tiles_lie_as_those_of_retina_eval(self):
        self.assertEqual(self.tiles.starts(1000, 400, 0.2), [0, 320, 600])
        self.assertEqual(self.tiles.starts(400, 400, 0.2), [0])
        self.assertEqual(self.tiles.starts(401, 400, 0), [0, 1])
        self.assertEqual(self.tiles.starts(200, 75, 0.1), [0, 67, 125])  # 7.5 px overlap become 8
        self.assertEqual(self.tiles.tiles_of(100, 300, (200, 0)), [
            (0, 0, 100, 200), (0, 100, 100, 200), (0, 0, 100, 300)])
        self.assertEqual(self.tiles.tiles_of(100, 80, (100, 0.2)), [(0, 0, 100, 80)])
        for size in ((100, 300), (100, 80), (2000, 3000)):
            self.assertEqual(self.tiles.tile_count(*size, (200, 0.2)),
                             len(self.tiles.tiles_of(*size, (200, 0.2))))


def jpeg(width, height):
    file = io.BytesIO()
    image = wheel("PIL.Image").radial_gradient("L").resize((width, height)).convert("RGB")
    image.save(file, "JPEG")
    return file.getvalue()


class TiledRequests(Parts):
    """Of the model's process, with a model that finds one box in the middle of what it is shown."""

    def answers(self, requests, **more):
        """The messages to `requests`, each elements and a tiling, and the batches: planes, their size."""
        batches = []

        def look(images, height, width):
            batches.append((images[:], height, width))
            return [([[width / 8, height / 8, 7 * width / 8, 7 * height / 8]], [.5], [0])] * len(images)

        return self.piped(requests, look, **{"kind": "detector"} | more), batches

    def test_the_model_sees_every_tile_and_the_image(self):
        file = jpeg(100, 70)
        [*progress, answer], batches = self.answers([([file], (64, 0.2))])
        whole = self.program.decoded(self.program.jpegs_of([file], self.request.Limits())[0])
        image = self.numpy.frombuffer(whole, self.numpy.uint8).reshape(3, 70, 100)
        seen = [self.numpy.frombuffer(planes[0], self.numpy.uint8).reshape(3, height, width)
                for planes, height, width in batches]
        wanted = [image[:, y:y + 64, x:x + 64] for y in (0, 6) for x in (0, 36)] + [image]
        self.assertEqual(len(seen), len(wanted))
        for one, other in zip(seen, wanted):
            self.numpy.testing.assert_array_equal(one, other)
        self.assertEqual(progress, [{"tiles_left": left} for left in (4, 3, 2, 1)])
        self.assertEqual(len(answer["seconds"]), 5)
        outputs = {output["name"]: output["data"] for output in answer["outputs"]}
        # Of the tiles, upper and lower ones match; the image's box shares too little with any.
        self.assertEqual(outputs["counts"], [3])
        self.assertEqual(outputs["boxes"], [8, 8, 56, 56, 12.5, 8.75, 87.5, 61.25, 44, 8, 92, 56])

    def test_images_of_a_request_are_tiled_each_and_small_ones_stay_whole(self):
        [*_, answer], batches = self.answers([([jpeg(30, 20), jpeg(65, 64), jpeg(64, 64)], (64, 0.2))])
        self.assertEqual([size for _, *size in batches],
                         [[20, 30], [64, 64], [64, 64], [64, 65], [64, 64]])
        self.assertEqual(answer["outputs"][-1]["data"], [1, 1, 1])

    def test_tiles_share_batches(self):
        _, batches = self.answers([([jpeg(640, 64)], (64, 0))], max_batch_images=4)
        self.assertEqual(sum(len(planes) for planes, *_ in batches), 11)

    def test_requests_with_and_without_tiles_keep_their_order(self):
        requests = [([jpeg(100 + i, 70)], (64, 0.2) if i % 2 else None) for i in range(6)]
        sent, _ = self.answers(requests)
        answers = [message for message in sent if "outputs" in message]
        self.assertEqual([len(answer["seconds"]) for answer in answers], [1, 5] * 3)

    def refusal(self, file, tiling, **more):
        [answer], batches = self.answers([([file], tiling)], **more)
        self.assertEqual(batches, [])
        return answer["status"], answer["problem"]

    def test_what_takes_no_tiles_or_too_many_is_refused_before_an_image_is_decoded(self):
        file = jpeg(100, 70)
        self.assertEqual(self.refusal(file, (64, 0.2), max_tiles=4), (
            413, "tile: 5 tiles of 64 px in all (the limit is 4); hint: a larger tile, less overlap, "
            "or fewer images at a time"))
        self.answers([([file], (64, 0.2))], max_tiles=5)
        self.assertEqual(self.refusal(file, (64, 0.2), kind="classifier"), (
            400, "tile: the model is a classifier (want a detector); hint: leave it out"))
        self.assertEqual(self.refusal(file, (64, 0.2), size=(70, 100)), (
            400, "tile: this model takes 100x70 only; hint: leave it out, or convert without "
            "--onnx-static"))
        self.assertEqual(self.refusal(file[:len(file) // 2], (64, 0.2))[0], 400)


class TiledModel(Parts):
    def answer(self, command, path, is_trusted, file, tiling, **limits):
        """The outputs by name, of the process itself."""
        async def ask():
            model = self.process.ModelProcess(path, is_trusted, self.request.Limits(**limits))
            await model.start()
            try:
                return await model.ask([file], tiling)
            finally:
                await model.stop()

        with unittest.mock.patch.object(self.process, "PROGRAM", command):
            outputs, _ = asyncio.run(ask())
        return {output["name"]: output["data"] for output in outputs}

    def test_an_image_of_many_tiles_may_take_long_while_they_get_done(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_text("detects slowly")
            outputs = self.answer(HERE / "stand_in_model.py", path, False, jpeg(640, 64), (64, 0),
                                  max_image_seconds=1)
        self.assertEqual(outputs["counts"], [0])

    def test_a_request_has_the_answer_of_retina_eval(self):
        wheel("onnxruntime")
        names = ("render_scenes", "make-checkpoint", "retina-convert", "retina-eval")
        render, make, convert, evaluate = map(program, names)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run(render, "--output", folder / "scenes", "--train", 1, "--validation", 1, "--intact",
                "--side", 300)
            [picture] = (folder / "scenes/images/val2017").iterdir()
            run(make, "--output", folder / "c.pt", "--head-spread", 0.3)
            run(convert, "--checkpoint", folder / "c.pt", "--output", folder / "m.onnx",
                "--score-threshold", 0.05, "--verification-images", 1)
            tiling = self.request.Tiling(128, 0.25)
            run(evaluate, "--model", folder / "m.onnx", "--images", picture, "--output", folder / "out",
                "--device", "cpu", "--tile", f"{tiling.side_px},overlap={tiling.overlap}")
            theirs = json.loads((folder / "out/detections.json").read_text())
            command = ROOT / "jobs/serving/model_program.py"
            with unittest.mock.patch.dict(os.environ,
                                          RETINA_ONNX_GUARD=str(BUILD / "lib/libretina_onnx_guard.so")):
                outputs = self.answer(command, folder / "m.onnx", False, picture.read_bytes(), tiling)
        boxes = [outputs["boxes"][at:at + 4] for at in range(0, len(outputs["boxes"]), 4)]
        ours = as_results(1, boxes, outputs["scores"], outputs["category_ids"])
        self.assertGreater(len(theirs), 10)
        self.same(ours, theirs, tolerance_px=1e-2, tolerance=1e-4)


if __name__ == "__main__":
    sys.exit(unittest.main())
