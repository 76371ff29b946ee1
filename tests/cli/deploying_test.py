"""The programs of convert/README.md's "Deploying", taken from the page, find what retina-eval finds:

    RETINA_BUILD=BUILD_DIR tests/jobs/with_wheels deploying_test.py [Deploying.test_x ...]

A runtime that is not installed skips its program.
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import readme_commands

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PAGE = SOURCE / "convert/README.md"
WIDTH, HEIGHT = 640, 480
BOX_PX, SCORE = 0.02, 1e-4  # printed with six digits


def site_packages():
    """Where this build found OpenVINO."""
    return re.search(r"^RETINA_SITE_PACKAGES:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]


def programs():
    """(language, text) of every block of the page's section."""
    section = re.search(r"(?ms)^## Deploying\n.*?(?=^## )", PAGE.read_text())[0]
    return [(language, "\n".join(lines) + "\n")
            for _, language, lines in readme_commands.blocks_of(section)]


def program(language, word):
    found = [text for own, text in programs() if own == language and word in text]
    assert len(found) == 1, f"{PAGE}: {len(found)} blocks in {language} with {word}"
    return found[0]


def run(*words, cwd, **more):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True,
                          env=os.environ | more)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


class Deploying(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("PIL") is None:
            raise unittest.SkipTest("no Pillow: make test installs it")
        cls.room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.room.cleanup)
        cls.place = pathlib.Path(cls.room.name)
        cls.make_photo()
        for words in (["make-checkpoint", "--output", "c.pt"],
                      ["retina-convert", "--checkpoint", "c.pt", "--output", "model.onnx",
                       "--verification-images", "1", "--max-detections", "20"]):
            run(BUILD / "bin" / words[0], *words[1:], cwd=cls.place)
        cls.expected = cls.found_by_retina_eval()
        assert len(cls.expected) >= 10, "a proof on nothing"

    @classmethod
    def make_photo(cls):
        from PIL import Image, ImageDraw
        photo = Image.linear_gradient("L").resize((WIDTH, HEIGHT)).convert("RGB")
        for place in range(6):
            corner = (30 + 95 * place, 40 + 60 * (place % 4))
            ImageDraw.Draw(photo).rectangle((*corner, corner[0] + 70, corner[1] + 130),
                                            fill=(40 * place, 200 - 30 * place, 90))
        (cls.place / "images").mkdir()
        photo.save(cls.place / "photo.jpg", quality=95)
        (cls.place / "images/photo.jpg").write_bytes((cls.place / "photo.jpg").read_bytes())
        stored = Image.open(cls.place / "photo.jpg")
        (cls.place / "photo.rgb").write_bytes(b"".join(band.tobytes() for band in stored.split()))

    @classmethod
    def found_by_retina_eval(cls):
        """(label, score, x1, y1, x2, y2) of each detection, the best first."""
        done = subprocess.run([BUILD / "bin/retina-eval", "--model", "model.onnx", "--images", "images",
                               "--output", "found", "--device", "cpu"],
                              cwd=cls.place, capture_output=True, text=True)
        if done.returncode == 69:
            raise unittest.SkipTest("built without OpenVINO")
        assert done.returncode == 0, done.stderr
        found = []
        for one in json.loads((cls.place / "found/detections.json").read_text()):
            x, y, width, height = one["bbox"]
            found.append((one["category_id"] // 10, one["score"], x, y, x + width, y + height))
        return sorted(found, key=lambda row: -row[1])

    def expect_what_retina_eval_finds(self, printed, label_of):
        found = []
        for line in printed.splitlines():
            *name, score, x1, y1, x2, y2 = line.split(" ")
            found.append((label_of(" ".join(name)), *map(float, (score, x1, y1, x2, y2))))
        self.assertEqual(len(found), len(self.expected), printed)
        for row in found:
            same = [want for want in self.expected
                    if want[0] == row[0] and abs(want[1] - row[1]) <= SCORE
                    and all(abs(a - b) <= BOX_PX for a, b in zip(want[2:], row[2:]))]
            self.assertTrue(same, f"{row} is not one of {self.expected}")

    def run_python(self, word, needs, **environment):
        for module in needs:
            probe = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True,
                                   env=os.environ | environment)
            if probe.returncode != 0:
                self.skipTest(f"no {module} in this Python: make test installs it")
        printed = run(sys.executable, "-c", program("python", word), cwd=self.place, **environment)
        self.expect_what_retina_eval_finds(printed, lambda name: int(name.removeprefix("class ")))

    def test_onnx_runtime_in_python(self):
        self.run_python("onnxruntime", ["numpy", "onnxruntime"])

    def test_openvino_in_python(self):
        self.run_python("openvino", ["numpy", "openvino"], PYTHONPATH=site_packages())

    def test_onnx_runtime_in_cpp(self):
        if subprocess.run(["pkg-config", "--exists", "libonnxruntime"]).returncode != 0:
            self.skipTest("no libonnxruntime-dev, which Debian has from 13 on")
        (self.place / "detect.cpp").write_text(program("cpp", "onnxruntime_cxx_api.h"))
        run("bash", "-c", program("sh", "libonnxruntime"), cwd=self.place)
        self.expect_what_retina_eval_finds(run("./detect", cwd=self.place), int)

    def test_every_other_program_is_python_at_least(self):
        for language, text in programs():
            if language == "python":
                compile(text, "snippet", "exec")
        self.assertEqual(sorted(language for language, _ in programs()),
                         ["cpp", "python", "python", "python", "sh", "sh", "sh"])


if __name__ == "__main__":
    unittest.main()
