"""jobs/fetch_coco.sh against a small mirror on loopback: what it leaves, its exit codes and lines."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from mirror import CocoMirror, DownloadTest, TRAIN_COUNT, VAL_COUNT

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/fetch_coco.sh"


class FetchCoco(DownloadTest):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.data = pathlib.Path(room.name) / "coco with a space"
        (pathlib.Path(room.name) / "mirror").mkdir()
        self.mirror = self.enterContext(CocoMirror(pathlib.Path(room.name) / "mirror"))

    def command(self):
        return [SCRIPT, self.data]

    def expect_done(self, **environment):
        done = self.fetch(**environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.listing(), self.whole_listing())
        return done

    def listing(self):
        return sorted(str(path.relative_to(self.data)) for path in self.data.rglob("*")
                      if path.is_file())

    @staticmethod
    def whole_listing():
        return sorted([f"annotations/instances_{split}2017.json" for split in ("train", "val")] +
                      [f"train2017/{i:012}.jpg" for i in range(TRAIN_COUNT)] +
                      [f"val2017/{i:012}.jpg" for i in range(VAL_COUNT)])

    def archives_fetched(self):
        return [name for name, _ in self.mirror.gets]

    def test_leaves_the_layout_of_coco_and_nothing_else(self):
        self.assertIn("is complete", self.expect_done().stdout)
        self.assertEqual((self.data / "train2017/000000000003.jpg").read_bytes(), b"\3" * 5000)
        self.assertEqual(sorted(os.listdir(self.data)), ["annotations", "train2017", "val2017"])

    def test_a_second_call_fetches_nothing_and_writes_nothing(self):
        self.expect_done()
        self.mirror.gets.clear()
        before = self.data.stat().st_mtime_ns
        self.assertIn("is already there", self.expect_done(COCO_URL="http://127.0.0.1:1").stdout)
        self.assertEqual(self.mirror.gets, [])
        self.assertEqual(self.data.stat().st_mtime_ns, before)

    def test_a_broken_line_continues_where_it_broke(self):
        self.mirror.break_after = [20000, 100, 7000]
        self.expect_done()
        self.assertEqual([start for name, start in self.mirror.gets if name == "train2017.zip"],
                         [0, 20000, 20100, 27100])

    def test_an_interrupted_call_is_continued_by_the_next(self):
        self.mirror.break_after = [20000, 0, 0, 0]
        self.expect_refusal(69, "train2017.zip", "run the same command again")
        self.mirror.gets.clear()
        self.expect_done()
        self.assertEqual(self.mirror.gets[0], ("train2017.zip", 20000))

    def test_killed_in_the_middle_of_an_archive_it_continues_there(self):
        there = self.kill_while_receiving(self.data / "zips/train2017.zip.part", 20000)
        self.expect_done()
        self.assertEqual(self.mirror.gets[0], ("train2017.zip", there))

    def test_a_server_without_ranges_starts_again(self):
        self.mirror.knows_ranges = False
        self.mirror.break_after = [20000]
        self.expect_done()
        self.assertEqual(self.archives_fetched().count("train2017.zip"), 3)

    def test_a_part_that_is_there_is_not_fetched_again(self):
        self.expect_done()
        shutil.rmtree(self.data / "val2017")
        self.mirror.gets.clear()
        self.expect_done()
        self.assertEqual(self.archives_fetched(), ["val2017.zip"])

    def test_an_unpacking_that_was_cut_short_is_completed(self):
        self.expect_done()
        for i in range(2, TRAIN_COUNT):
            (self.data / f"train2017/{i:012}.jpg").unlink()
        self.expect_done()

    def test_a_kill_while_unpacking_costs_no_download(self):
        for archive in ("zips/train2017.zip", "zips/val2017.zip"):
            (self.data / "zips/.unpacking/train2017").mkdir(parents=True, exist_ok=True)
            shutil.copy(self.mirror.root / archive, self.data / "zips")
        (self.data / "zips/.unpacking/train2017/000000000000.jpg").write_bytes(b"half")
        self.expect_done()
        self.assertEqual(self.archives_fetched(), ["annotations_trainval2017.zip"])

    def test_keeps_the_archives_when_told(self):
        kept = self.fetch(KEEP_ZIPS="1")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(sorted(name for name in self.listing() if name.endswith(".zip")),
                         ["zips/annotations_trainval2017.zip", "zips/train2017.zip",
                          "zips/val2017.zip"])
        self.mirror.gets.clear()
        self.expect_done()  # told no longer: they go
        self.assertEqual(self.mirror.gets, [])

    def test_other_annotations_of_the_user_stay(self):
        (self.data / "annotations").mkdir(parents=True)
        own = self.data / "annotations/mine.json"
        own.write_text("mine")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(own.read_text(), "mine")
        self.assertTrue((self.data / "annotations/instances_val2017.json").is_file())

    def test_another_size_is_refused_before_the_download(self):
        self.mirror.rows[0][1] += 1
        self.mirror.write_table(self.mirror.rows)
        self.expect_refusal(65, "train2017.zip", "got 6", "want 6")
        self.assertEqual(self.mirror.gets, [])

    def test_another_size_is_found_after_the_download_at_the_latest(self):
        self.mirror.tells_sizes = False
        self.mirror.rows[0][1] -= 1000
        self.mirror.write_table(self.mirror.rows)
        self.expect_refusal(65, "train2017.zip", "a different size")
        self.assertEqual([name for name in self.listing() if "zip" in name and "lock" not in name],
                         [])

    def test_an_archive_with_another_hash_is_removed_and_fetched_again(self):
        # Another whole archive: names, sizes and unzip's own sums are right, the content is not.
        archive = self.mirror.root / "zips/train2017.zip"
        whole = archive.read_bytes()
        self.mirror.archive("zips/train2017.zip", "train2017/*.jpg",
                            {f"train2017/{i:012}.jpg": b"x" * 5000 for i in range(TRAIN_COUNT)})
        self.assertEqual(archive.stat().st_size, len(whole))
        self.expect_refusal(65, "train2017.zip", f"want {self.mirror.rows[0][5]}", "was removed",
                            "run the same command again")
        self.assertEqual([name for name in self.listing() if "lock" not in name], [])
        archive.write_bytes(whole)
        self.expect_done()

    def test_an_archive_that_lies_there_is_proven_before_it_is_unpacked(self):
        archive = self.mirror.root / "zips/val2017.zip"
        whole = archive.read_bytes()
        (self.data / "zips").mkdir(parents=True)
        (self.data / "zips/val2017.zip").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.expect_refusal(65, "val2017.zip", "SHA-256", "run the same command again")
        self.expect_done()

    def test_the_archives_come_by_https_and_have_published_hashes(self):
        script = SCRIPT.read_text()
        self.assertIn("url=${COCO_URL:-https://s3.amazonaws.com/images.cocodataset.org}", script)
        rows = [line.split() for line in SCRIPT.with_name("coco2017.txt").read_text().splitlines()
                if not line.startswith("#")]
        # TensorFlow Datasets, url_checksums/coco.txt.
        self.assertEqual({row[0].split("/")[-1]: (row[1], row[5]) for row in rows}, {
            "train2017.zip":
                ("19336861798", "69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929"),
            "val2017.zip":
                ("815585330", "4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05"),
            "annotations_trainval2017.zip":
                ("252907541", "113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268")})

    def test_foreign_images_among_cocos_are_refused(self):
        self.expect_done()
        (self.data / "val2017/mine.jpg").write_text("mine")
        self.expect_refusal(73, "val2017", "move them away")
        self.assertTrue((self.data / "val2017/mine.jpg").exists())

    def test_too_little_space_is_told_before_anything_is_fetched(self):
        self.mirror.rows[0][4] = 1 << 60
        self.mirror.write_table(self.mirror.rows)
        self.expect_refusal(74, "too little free space", "EiB")
        self.assertEqual(self.mirror.gets, [])

    def test_no_network_is_one_line(self):
        self.expect_refusal(69, "COCO_URL", COCO_URL="http://127.0.0.1:1")

    def test_an_archive_that_the_server_lacks_is_one_line(self):
        (self.mirror.root / "zips/val2017.zip").unlink()
        self.expect_refusal(69, "val2017.zip", "refused it")

    def test_an_output_that_cannot_be_made_is_one_line(self):
        self.data.write_text("a file")
        self.expect_refusal(73, "cannot be written")

    def test_two_at_once_are_refused(self):
        (self.data / "zips").mkdir(parents=True)
        holder = subprocess.Popen(["flock", self.data / "zips/.lock", "sh", "-c", "echo; read _"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdout.readline()
        self.expect_refusal(78, "another fetch")
        holder.communicate(b"\n")

    def test_a_wrong_command_line_is_64(self):
        for arguments in ([], ["--help"], ["a", "b"]):
            self.assertEqual(subprocess.run([SCRIPT, *arguments], capture_output=True).returncode, 64)


if __name__ == "__main__":
    sys.exit(unittest.main())
