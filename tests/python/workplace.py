"""A folder with small data sets, packed by this build, for the tests of python/retina_batch."""
import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))


def need(*modules):
    """Skips the tests where a module is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise unittest.SkipTest(f"no {module} in this Python: make test installs it")


class Workplace:
    """Numbers and names are those that an image or a box has in COCO files that are not made by us:
    fractions, crowds, an image without boxes, names with a folder and with accents."""

    def __init__(self, test_class):
        room = tempfile.TemporaryDirectory()
        test_class.addClassCleanup(room.cleanup)
        self.path = pathlib.Path(room.name)

    def run(self, program, *words, code=0):
        done = subprocess.run([str(word) for word in (BUILD / "bin" / program, *words)], cwd=self.path,
                              capture_output=True, text=True, timeout=500)
        assert done.returncode == code, f"{program} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def render_scenes(self, train, validation):
        self.run("render_scenes", "--output", "scenes", "--train", train, "--validation", validation,
                 "--intact")
        path, images = self.path / "scenes/annotations/instances_train2017.json", "scenes/images/train2017"
        truth = json.loads(path.read_text())
        for number, annotation in enumerate(truth["annotations"]):
            x, y, width, height = annotation["bbox"]
            annotation["bbox"] = [x + .1, y + 1 / 3, width - 1.7, height / 1.1]
            annotation["iscrowd"] = int(number % 7 == 3)
        bare = truth["images"][1]["id"]
        truth["annotations"] = [one for one in truth["annotations"] if one["image_id"] != bare]
        for number, image in enumerate(truth["images"][:3]):
            name = f"Straße {number}/ü.jpg"
            (self.path / images / name).parent.mkdir()
            (self.path / images / image["file_name"]).rename(self.path / images / name)
            image["file_name"] = name
        path.write_text(json.dumps(truth))

    def pack_scenes(self, split, *options):
        self.run("coco-pack", "--annotations", f"scenes/annotations/instances_{split}2017.json", "--images",
                 f"scenes/images/{split}2017", "--output", f"shards/{split}", *options)
        return self.path / "shards" / split

    def pack_classes(self, name, count, side, *options):
        self.run("render_classes", "--output", name, "--layout", "folders", "--side", side, "--train", count,
                 "--validation", 10)
        self.run("coco-pack", "--format", "folders", "--images", f"{name}/train", "--output",
                 f"shards/{name}", *options)
        return self.path / "shards" / name

    def exported(self, shards):
        """The labels of a packed set, as coco-pack writes them."""
        out = self.path / "exported.json"
        with contextlib.suppress(FileNotFoundError):
            out.unlink()
        self.run("coco-pack", "--inspect", shards, "--export-annotations", out)
        return json.loads(out.read_text())
