"""jobs/local.sh with stand-ins for the programs and for mpirun: with how many ranks it starts what."""
import os
import pathlib
import shutil
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

    def packed(self, form, annotations, images, output, *options):
        data, out = self.room / "data", self.room / "out"
        return ["--format", form, "--annotations", f"{data}/{annotations}", "--images",
                f"{data}/{images}", "--output", f"{out}/{output}", *options]

    def test_a_folder_of_coco_is_packed(self):
        self.assertEqual(self.packs(), [
            self.packed("coco", f"annotations/instances_{split}.json", f"images/{split}",
                        f"shards/{split}") for split in ("val", "train")])

    def test_a_folder_of_yolo_is_packed_as_one(self):
        data = self.room / "data"
        (data / "data.yaml").touch()
        self.assertEqual(self.packs(), [
            self.packed("yolo", "data.yaml", f"images/{split}", f"shards/{split}")
            for split in ("val", "train")])
        (data / "images").rename(data / "elsewhere")
        (data / "train/images").mkdir(parents=True)
        (data / "valid/images").mkdir(parents=True)
        self.assertEqual([pack[pack.index("--images") + 1] for pack in self.packs()],
                         [f"{data}/valid/images", f"{data}/train/images"])

    def test_one_split_alone_is_packed_in_two(self):
        data, out = self.room / "data", self.room / "out"
        (data / "annotations/instances_val.json").unlink()
        self.assertEqual(self.packs(), [self.packed(
            "coco", "annotations/instances_train.json", "images/train", "shards", "--split", "0.9")])
        training, = [call for call in self.calls(0) if "--train" in call]
        self.assertEqual(training[training.index("--train") + 1], f"{out}/shards/train")
        self.assertEqual(training[training.index("--validation") + 1], f"{out}/shards/validation")
        (data / "data.yaml").touch()
        (data / "images/val").rmdir()
        self.assertEqual(self.packs(), [self.packed(
            "yolo", "data.yaml", "images/train", "shards", "--split", "0.9")])

    def test_a_folder_of_voc_is_packed_in_two(self):
        for name in ("Annotations", "JPEGImages"):
            (self.room / "data" / name).mkdir()
        self.assertEqual(self.packs(), [self.packed(
            "voc", "Annotations", "JPEGImages", "shards", "--split", "0.9")])

    def test_the_lists_of_a_voc_folder_are_its_splits(self):
        data = self.room / "data"
        for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (data / name).mkdir(parents=True)
        lists = data / "ImageSets/Main"
        (lists / "val.txt").touch()
        self.assertEqual(self.packs(), [self.packed(
            "voc", "Annotations", "JPEGImages", "shards", "--split", "0.9")])
        (lists / "train.txt").touch()
        (lists / "trainval.txt").touch()
        self.assertEqual(self.packs(), [
            self.packed("voc", f"ImageSets/Main/{split}.txt", "JPEGImages", f"shards/{split}")
            for split in ("val", "train")])
        (lists / "val.txt").unlink()
        self.assertEqual(self.packs(), [self.packed(
            "voc", "ImageSets/Main/trainval.txt", "JPEGImages", "shards", "--split", "0.9")])

    def test_a_folder_without_a_data_set_is_66(self):
        (self.room / "empty").mkdir()
        done = subprocess.run(
            [SCRIPT, "--bin", self.room, "--data", self.room / "empty", "--output",
             self.room / "out", "--ranks", "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 66)
        self.assertIn("empty: no data set of COCO, YOLO, Pascal VOC, CIFAR-10 or class folders",
                      done.stderr)

    def clear_data(self):
        shutil.rmtree(self.room / "data")
        (self.room / "data").mkdir()

    def make_pictures(self, *names):
        for name in names:
            path = self.room / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def packed_classes(self, form, images, output, *options):
        return ["--format", form, "--images", f"{self.room}/data{images}", "--output",
                f"{self.room}/out/{output}", *options]

    def task_of_training(self):
        training, = [call for call in self.calls(0) if "--train" in call]
        return training[training.index("--task") + 1]

    def test_the_files_of_cifar10_are_packed_and_classified(self):
        self.assertEqual(self.task_of_training(), "detect")
        self.clear_data()
        self.make_pictures("data_batch_1.bin", "test_batch.bin")
        self.assertEqual(self.packs(), [
            self.packed_classes("cifar10", "/test_batch.bin", "shards/val"),
            self.packed_classes("cifar10", "", "shards/train")])
        self.assertEqual(self.task_of_training(), "classify")
        (self.room / "data/test_batch.bin").unlink()
        self.assertEqual(self.packs(), [
            self.packed_classes("cifar10", "", "shards", "--split", "0.9")])

    def test_folders_of_classes_are_packed_and_classified(self):
        self.clear_data()
        self.make_pictures("train/cat/1.jpg", "train/dog/2.JPEG", "validation/cat/3.jpg")
        self.assertEqual(self.packs(), [
            self.packed_classes("folders", "/validation", "shards/val"),
            self.packed_classes("folders", "/train", "shards/train")])
        self.assertEqual(self.task_of_training(), "classify")
        shutil.rmtree(self.room / "data/validation")
        self.assertEqual(self.packs(), [
            self.packed_classes("folders", "/train", "shards", "--split", "0.9")])

    def test_folders_of_classes_alone_are_packed_in_two(self):
        self.clear_data()
        self.make_pictures("cat/1.jpg", "dog/2.jpg", "val/3.jpg")
        self.assertEqual(self.packs(), [
            self.packed_classes("folders", "", "shards", "--split", "0.9")])

    def test_photographs_of_coco_without_their_annotations_are_no_classes(self):
        self.clear_data()
        self.make_pictures("train2017/1.jpg", "val2017/2.jpg", "annotations/captions.json")
        done = subprocess.run(
            [SCRIPT, "--bin", self.room, "--data", self.room / "data", "--output",
             self.room / "out", "--ranks", "1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 66, done.stderr)

    def test_the_numbers_are_named_by_the_task(self):
        def results():
            return subprocess.run(
                [SCRIPT, "--bin", self.room, "--data", self.room / "data", "--output",
                 self.room / "out", "--ranks", "1"], capture_output=True, text=True, timeout=60,
                env=os.environ | {"CALLS": str(self.room / "calls"), "GPUS": "0"}).stdout
        self.assertIn("/detections.json", results())
        self.clear_data()
        self.make_pictures("cat/1.jpg")
        self.assertIn("/predictions.jsonl", results())


if __name__ == "__main__":
    unittest.main()
