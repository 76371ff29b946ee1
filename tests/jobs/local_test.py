"""jobs/local.sh with stand-ins for the programs and for mpirun: with how many ranks it starts what."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/local.sh"

# Writes its name and words into a file, a line each call.
STAND_IN = """#!/usr/bin/env bash
if [ "$1" = --version ]; then echo "GPUs seen $GPUS"; exit; fi
echo "${0##*/} $*" >>"$CALLS"
"""
PROGRAMS = ("coco-pack", "retina-train", "retina-eval", "retina-convert", "mpirun")


class Local(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        for name in PROGRAMS:
            (self.room / name).write_text(STAND_IN)
            (self.room / name).chmod(0o755)
        for split in ("train", "val"):
            (self.room / "data/images" / split).mkdir(parents=True)
            annotations = self.room / f"data/annotations/instances_{split}.json"
            annotations.parent.mkdir(exist_ok=True)
            annotations.touch()

    def calls(self, gpus, *options):
        calls = self.room / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [SCRIPT, "--bin", self.room, "--data", self.room / "data", "--output", self.room / "out",
             *options], capture_output=True, text=True, timeout=60,
            env=os.environ | {"PATH": f"{self.room}:{os.environ['PATH']}", "CALLS": str(calls),
                              "GPUS": str(gpus)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split() for line in calls.read_text().splitlines()]

    def ranks_of_training(self, gpus, *options):
        training, = [call for call in self.calls(gpus, *options) if "--train" in call]
        return int(training[training.index("-np") + 1]) if training[0] == "mpirun" else 1

    def test_a_rank_starts_for_each_gpu_that_the_program_sees(self):
        self.assertEqual(self.ranks_of_training(1), 1)
        self.assertEqual(self.ranks_of_training(3), 3)
        self.assertEqual(self.ranks_of_training(8, "--most-ranks", "4"), 4)
        self.assertEqual(self.ranks_of_training(1, "--most-ranks", "4"), 1)

    def test_two_ranks_start_where_there_is_no_gpu(self):
        self.assertEqual(self.ranks_of_training(0), 2)

    def test_the_number_of_ranks_can_be_given(self):
        self.assertEqual(self.ranks_of_training(1, "--ranks", "2"), 2)

    def packs(self):
        return [call[1:] for call in self.calls(0) if call[0] == "coco-pack"]

    def test_a_folder_of_coco_is_packed(self):
        data, out = self.room / "data", self.room / "out"
        self.assertEqual(self.packs(), [
            ["--annotations", f"{data}/annotations/instances_{split}.json", "--images",
             f"{data}/images/{split}", "--output", f"{out}/shards/{split}"]
            for split in ("train", "val")])

    def test_a_folder_of_pascal_voc_is_split(self):
        data, out = self.room / "data", self.room / "out"
        (data / "Annotations").mkdir()
        (data / "JPEGImages").mkdir()
        self.assertEqual(self.packs(), [
            ["--format", "voc", "--annotations", f"{data}/Annotations", "--images",
             f"{data}/JPEGImages", "--output", f"{out}/shards", "--split", "0.9"]])
        used = {word for call in self.calls(0) for word in call if word.startswith(f"{out}/shards/")}
        self.assertEqual(used, {f"{out}/shards/train", f"{out}/shards/validation"})

    def test_a_folder_of_yolo_is_packed_as_one(self):
        data, out = self.room / "data", self.room / "out"
        (data / "data.yaml").touch()
        self.assertEqual(self.packs(), [
            ["--format", "yolo", "--annotations", f"{data}/data.yaml", "--images",
             f"{data}/images/{split}", "--output", f"{out}/shards/{split}"]
            for split in ("train", "val")])
        (data / "images").rename(data / "elsewhere")
        (data / "train/images").mkdir(parents=True)
        (data / "valid/images").mkdir(parents=True)
        self.assertEqual([pack[pack.index("--images") + 1] for pack in self.packs()],
                         [f"{data}/train/images", f"{data}/valid/images"])


if __name__ == "__main__":
    unittest.main()
