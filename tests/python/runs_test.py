"""retina_batch reads what retina-train and retina-eval measured and runs what retina-convert wrote,
and the snippets of python/README.md do what they say:

    RETINA_BUILD=BUILD_DIR tests/jobs/with_wheels runs_test.py [PythonRun.test_x ...]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import workplace
from workplace import SOURCE, need

sys.path.insert(0, str(SOURCE / "tests/cli"))
import readme_commands  # noqa: E402

SMALL = ["--backbone", "resnet18", "--min-side", 64, "--max-side", 96, "--images-per-step", 2, "--threads", 1,
         "--compute-threads", 1, "--device", "cpu"]
COCO = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large",
        "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"]


class PythonRun(unittest.TestCase):
    """A detector: packed, trained, continued, evaluated, converted."""

    @classmethod
    def setUpClass(cls):
        need("numpy")
        import retina_batch
        cls.module = retina_batch
        cls.place = workplace.Workplace(cls)
        cls.place.render_scenes(4, 4)
        cls.place.pack_scenes("train")
        cls.place.pack_scenes("val")
        train = ["retina-train", *SMALL, "--train", "shards/train", "--validation", "shards/val", "--output", "run",
                 "--validate-every", 1]
        cls.place.run(*train, "--epochs", 2)
        cls.place.run("retina-eval", "--model", "run", "--data", "shards/val", "--output", "evaluation",
                      "--device", "cpu", "--compute-threads", 1, "--score-threshold", .001)
        cls.place.run("retina-convert", "--checkpoint", "run", "--output", "model.onnx", "--device", "cpu",
                      "--verification-images", 1, "--score-threshold", .001, "--max-detections", 20)

    def lines(self):
        return [json.loads(line) for line in (self.place.path / "run/metrics.jsonl").read_text().splitlines()]

    def test_every_number_of_a_run_is_in_its_table(self):
        metrics = self.module.read_metrics(self.place.path / "run")
        steps = [line for line in self.lines() if "loss" in line]
        self.assertEqual(set(metrics.steps), {key for line in steps for key in line})
        for key, column in metrics.steps.items():
            self.assertEqual(column.tolist(), [line[key] for line in steps], key)
        self.assertEqual(metrics.steps["step"].tolist(), [1, 2, 3, 4])
        validations = [line for line in self.lines() if "validation" in line]
        losses = ["loss", "classification_loss", "box_loss"]
        self.assertEqual(set(metrics.validations), {"step", "epoch", "count_best", *COCO, *losses})
        for name in losses:
            self.assertEqual(metrics.validations[name].tolist(),
                             [line["validation"][name] for line in validations], name)
        self.assertEqual(metrics.validations["step"].tolist(), [2, 4])
        for place, name in enumerate(COCO):
            self.assertEqual(metrics.validations[name].tolist(),
                             [line["validation"]["stats"][place] for line in validations], name)
        epochs = [line for line in self.lines() if "rank_times" in line]
        self.assertEqual(metrics.epochs["epoch"].tolist(), [1, 2])
        for key in ("step", "steps", "epoch_seconds", "images_per_epoch"):
            self.assertEqual(metrics.epochs[key].tolist(), [line[key] for line in epochs], key)
        self.assertEqual(metrics.ranks["epoch"].tolist(), [1, 2])
        for key, value in epochs[1]["rank_times"][0].items():
            self.assertEqual(metrics.ranks[key][1], value, key)

    def test_every_number_of_an_evaluation_is_there(self):
        evaluation = self.module.read_evaluation(self.place.path / "evaluation")
        content = json.loads((self.place.path / "evaluation/metrics.json").read_text())
        self.assertEqual(evaluation.content, content)
        self.assertEqual([evaluation.metrics[name] for name in COCO], content["stats"])
        self.assertEqual(evaluation.metrics["image_count"], 4)
        for key in ("name", "category_id", "AP", "AR_large", "object_count", "detection_count"):
            self.assertEqual(evaluation.per_class[key].tolist(), [one[key] for one in content["per_class"]])

    def found_by_retina_eval(self):
        self.place.run("retina-eval", "--model", "model.onnx", "--images", "scenes/images/val2017", "--output",
                       "found", "--device", "cpu")
        return json.loads((self.place.path / "found/detections.json").read_text())

    def test_detections_are_those_of_retina_eval(self):
        need("onnxruntime", "PIL")
        found = self.found_by_retina_eval()
        self.assertGreater(len(found), 10, "a proof on nothing")
        shards = self.module.Shards(self.place.path / "shards/val")
        images = [self.place.path / "scenes/images/val2017" / name for name in shards.file_names]
        images[1] = shards[1].pixels()
        detections = self.module.detect(self.place.path / "model.onnx", images)
        self.assertEqual(len(detections), len(shards))
        for record, own in zip(shards, detections):
            want = sorted((one for one in found if one["file_name"] == record.file_name),
                          key=lambda one: -one["score"])
            self.assertEqual(len(own.scores), len(want))
            self.assertEqual(own.classes, shards.classes)
            for score, label, box, corners in zip(own.scores, own.labels, own.boxes, own.corners):
                x, y, width, height = box
                self.assertEqual([x, y], corners[:2].tolist())
                same = [one for one in want if one["category_id"] == shards.category_ids[label]
                        and abs(one["score"] - score) < 1e-4
                        and max(abs(a - b) for a, b in zip(one["bbox"], box)) < .05]
                self.assertTrue(same, f"{own.classes[label]} {score} {box} is not one of {want}")

    def test_what_is_not_a_detector_is_refused(self):
        need("onnxruntime")
        import numpy
        (self.place.path / "text.onnx").write_text("no model")
        self.place.run("retina-convert", "--checkpoint", "run", "--output", "plain.onnx", "--no-postprocess",
                       "--device", "cpu", "--verification-images", 1)
        for name, words in (("text.onnx", "ONNX Runtime cannot open it"),
                            ("plain.onnx", r"got outputs boxes, scores, want boxes, scores, labels, counts")):
            with self.assertRaisesRegex(self.module.DataError, f"{name}: .*{words}.*; hint: ") as caught:
                self.module.detect(self.place.path / name, [])
            self.assertEqual(len(str(caught.exception).splitlines()), 1)
        with self.assertRaises(FileNotFoundError):
            self.module.detect(self.place.path / "absent.onnx", [])
        pixels = numpy.zeros((40, 50, 3), numpy.uint8)
        for image in (pixels / 255, pixels[:, :, :1], pixels[0]):
            with self.assertRaisesRegex(ValueError, "image: got .*, want uint8 "):
                self.module.detect(self.place.path / "model.onnx", [image])

    def test_the_pages_commands_and_snippets_run(self):
        need("onnxruntime", "PIL")
        page = (SOURCE / "python/README.md").read_text()
        snippets = ["\n".join(lines) for _, language, lines in readme_commands.blocks_of(page)
                    if language == "python"]
        self.assertEqual(len(snippets), 4)
        environment = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", "\n".join(snippets)], cwd=self.place.path,
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("4 images of disc, square", "loss ", "at step 4", "best AP", "weak: "):
            self.assertIn(words, done.stdout)
        one_line, = [line for _, line, _ in readme_commands.commands_of(page) if "python3 -c" in line]
        (self.place.path / "python").symlink_to(SOURCE / "python")
        done = subprocess.run(["bash", "-c", one_line.replace("python3", sys.executable)], capture_output=True,
                              cwd=self.place.path, text=True, env=environment)
        self.assertEqual(done.stdout, "<Shards 'shards/val': 4 images, 5 classes, detection>\n", done.stderr)


class PythonMetricsLog(unittest.TestCase):
    """metrics.jsonl as a killed, continued or damaged run leaves it."""

    @classmethod
    def setUpClass(cls):
        need("numpy")
        import retina_batch
        cls.module = retina_batch

    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.run_folder = pathlib.Path(room.name)

    def read(self, *lines, end="\n"):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
        (self.run_folder / "metrics.jsonl").write_text(text)
        return self.module.read_metrics(self.run_folder)

    @staticmethod
    def step(number, loss=1.0, **more):
        return {"step": number, "epoch": (number + 1) // 2, "loss": loss, **more}

    @staticmethod
    def validation(number, ap):
        return {"step": number, "epoch": number // 2, "validation": {"AP": ap}}

    @staticmethod
    def epoch(number, steps):
        return {"step": number, "epoch": number // 2, "steps": steps, "rank_times": [{"rank": 0, "node": "n"}]}

    def test_a_line_that_is_not_complete_is_left_out(self):
        for half in ("", '{"step": 3, "epo', json.dumps(self.step(3))):
            metrics = self.read(self.step(1), self.step(2), half, end="")
            self.assertEqual(metrics.steps["step"].tolist(), [1, 2], half)

    def test_of_steps_that_were_done_twice_the_later_ones_count_with_what_follows(self):
        metrics = self.read(self.step(1), self.step(2), self.validation(2, .1), self.step(3, 5), self.step(4, 6),
                            self.epoch(4, 2), self.validation(4, .2), self.step(5), self.step(3, 7),
                            self.step(4, 8), self.epoch(4, 1), self.validation(4, .3))
        self.assertEqual(metrics.steps["step"].tolist(), [1, 2, 3, 4])
        self.assertEqual(metrics.steps["loss"].tolist(), [1, 1, 7, 8])
        self.assertEqual(metrics.validations["AP"].tolist(), [.1, .3])
        self.assertEqual(metrics.epochs["steps"].tolist(), [1])

    def test_of_an_epoch_that_was_interrupted_the_last_line_counts(self):
        metrics = self.read(self.step(3), {**self.epoch(3, 1), "epoch": 2}, self.step(4),
                            {**self.epoch(4, 1), "epoch_seconds": 2.5})
        self.assertEqual(metrics.epochs["epoch"].tolist(), [2])
        self.assertEqual(metrics.epochs["epoch_seconds"].tolist(), [2.5])

    def test_recall_is_named_for_the_detections_that_count(self):
        line = self.validation(2, .1)
        line["validation"]["stats"] = list(range(12))
        self.assertEqual(self.read(line).validations["AR100"].tolist(), [8])
        line["validation"]["count_best"] = 10000  # a set of tiles
        tiled = self.read(line).validations
        self.assertEqual((tiled["AR10000"].tolist(), tiled["count_best"].tolist()), ([8], [10000]))
        self.assertNotIn("AR100", tiled)

    def test_a_classifiers_metrics_are_its_own(self):
        line = {"step": 2, "epoch": 1, "validation": {"top1": .5, "top5": .9, "loss": 1, "cross_entropy": 2}}
        metrics = self.read(self.step(1, top1=.3), line)
        self.assertEqual(list(metrics.validations), ["step", "epoch", "top1", "top5", "loss", "cross_entropy"])
        self.assertEqual(metrics.steps["top1"].tolist(), [.3])
        content = {"task": "classification", "top1": .5, "per_class": [{"name": "a", "recall": .5}]}
        (self.run_folder / "metrics.json").write_text(json.dumps(content))
        evaluation = self.module.read_evaluation(self.run_folder)
        self.assertEqual((evaluation.metrics["task"], evaluation.metrics["top1"]), ("classification", .5))
        self.assertEqual(evaluation.per_class["recall"].tolist(), [.5])

    def test_a_mark_of_another_length_is_no_step(self):
        metrics = self.read(self.step(1), self.step(2), {"step": 2, "total_steps": 4, "total_steps_before": 2},
                            self.step(3))
        self.assertEqual(metrics.steps["step"].tolist(), [1, 2, 3])
        self.assertNotIn("total_steps", metrics.steps)

    def test_what_is_missing_or_not_finite_is_nan_and_numbers_keep_their_type(self):
        import numpy
        metrics = self.read(self.step(1, 0), self.step(2, None, memory=7))
        self.assertEqual(metrics.steps["loss"][0], 0)
        for column, place in (("loss", 1), ("memory", 0)):
            self.assertEqual(metrics.steps[column].dtype, numpy.float64)
            self.assertTrue(numpy.isnan(metrics.steps[column][place]))
        self.assertEqual(metrics.steps["step"].dtype, numpy.int64)
        self.assertEqual((metrics.validations, metrics.epochs, metrics.ranks), ({}, {}, {}))

    def test_behind_a_damaged_line_nothing_is_read_and_a_warning_says_so(self):
        for hole in ("\0\0\0\0", '{"step": 2, "ep', "\udc80".encode(errors="surrogateescape").decode("latin-1")):
            with self.assertWarnsRegex(UserWarning, r"metrics\.jsonl: line 2 is not JSON: what follows"):
                metrics = self.read(self.step(1), hole, self.step(3))
            self.assertEqual(metrics.steps["step"].tolist(), [1])

    def test_foreign_files_are_named(self):
        for line in ("time,loss", "[1, 2]", '{"epoch": 1}', '{"step": "1"}', '{"step": 1, "validation": 2}',
                     '{"step": 1, "rank_times": [1], "epoch": 1}'):
            with self.assertRaisesRegex(self.module.DataError, r"^/.*metrics\.jsonl: .*; hint: give a run folder"):
                self.read(line)
        for text in ("", "[]", "{}", '{"per_class": 3}', '{"per_class": [3]}'):
            (self.run_folder / "metrics.json").write_text(text)
            with self.assertRaisesRegex(self.module.DataError, r"^/.*metrics\.json: .*; hint: give an output "):
                self.module.read_evaluation(self.run_folder)
        for read in (self.module.read_metrics, self.module.read_evaluation):
            with self.assertRaisesRegex(FileNotFoundError, "absent/metrics.json"):
                read(self.run_folder / "absent")


class PythonModule(unittest.TestCase):
    def test_its_version_is_that_of_the_programs(self):
        need("numpy")
        import retina_batch
        said = subprocess.run([workplace.BUILD / "bin/coco-pack", "--version"], capture_output=True, text=True)
        self.assertEqual(said.stdout.split()[:2], ["coco-pack", retina_batch.__version__])

    def test_packages_that_are_not_there_are_named_where_they_are_needed(self):
        need("numpy")
        code = ("import sys; sys.modules.update({'PIL.Image': None, 'onnxruntime': None, 'xxhash': None})\n"
                "import retina_batch\n"
                "from retina_batch._record import decoded\n"
                "for call in (lambda: decoded('x', 'Record.pixels'), lambda: retina_batch.detect('x', [])):\n"
                "    try: call()\n"
                "    except ImportError as error: print(error)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(SOURCE / "python")})
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[0], "^Record.pixels needs the package pillow .*; hint: pip install pillow$")
        self.assertRegex(lines[1], "^retina_batch.detect needs the package onnxruntime .*onnxruntime$")

    def with_runtime(self, version):
        """What detect() raises for a file where ONNX Runtime refuses whatever it is given."""
        import retina_batch._detect  # not under the patch, which would undo imports
        runtime = types.SimpleNamespace(
            __version__=version,
            InferenceSession=unittest.mock.Mock(side_effect=RuntimeError("asked")))
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(sys.modules, onnxruntime=runtime):
            path = pathlib.Path(folder) / "m.onnx"
            path.write_bytes(b"")
            with self.assertRaises((retina_batch.DataError, ImportError)) as caught:
                retina_batch.detect(path, [])
        return str(caught.exception)

    def test_a_runtime_that_is_too_old_is_refused(self):
        need("numpy")
        for version in ("1.19.2", "0.5"):
            self.assertEqual(self.with_runtime(version),
                             f"retina_batch.detect: the package onnxruntime is too old (got {version}, want 1.20 "
                             "or later); hint: pip install 'onnxruntime>=1.20'")
        for version in ("1.20.0", "2.0.0+cu13"):
            self.assertIn("asked", self.with_runtime(version))

    def test_its_sources_are_python_3_9(self):
        import ast
        for path in sorted((SOURCE / "python/retina_batch").glob("*.py")):
            ast.parse(path.read_text(), path.name, feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
