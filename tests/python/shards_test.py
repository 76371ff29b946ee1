"""retina_batch.Shards reads what coco-pack packs, and refuses what is damaged or foreign:

    RETINA_BUILD=BUILD_DIR tests/jobs/with_wheels shards_test.py [PythonShards.test_x ...]
"""
import itertools
import os
import pathlib
import pickle
import random
import re
import shutil
import struct
import tempfile
import unittest
from unittest import mock

import workplace
from workplace import need

SEED = 11


def content_of(record):
    """All that a record holds, to compare it with another."""
    return (record.image_id, record.file_name, record.width, record.height, record.image, record.encoding,
            record.boxes.tolist(), record.labels.tolist(), record.crowd.tolist(), record.areas.tolist(),
            record.annotation_ids.tolist(), record.label, record.rescaled, record.converted)


def record_spans(shard):
    from retina_batch import _lmdb  # needs numpy
    return _lmdb.record_spans(str(shard))


def without_checksums():
    """As where the package xxhash is not installed."""
    return mock.patch("retina_batch._checks.xxhash", None)


class PythonShards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("numpy")
        import retina_batch
        cls.Shards = retina_batch.Shards
        cls.place = workplace.Workplace(cls)
        cls.place.render_scenes(24, 2)
        # Shards of several records, and such whose small records lie inside the tree's pages.
        cls.scenes = cls.place.pack_scenes("train", "--shard-size", "128KiB")
        cls.tiles = cls.place.pack_scenes("val", "--tile", "200", "--encoding", "raw")
        cls.classes = cls.place.pack_classes("classes", 300, 16)
        cls.raw = cls.place.pack_classes("raw", 30, 40, "--encoding", "raw", "--max-side", "20")

    def test_records_are_those_that_coco_pack_exports(self):
        shards, truth = self.Shards(self.scenes), self.place.exported(self.scenes)
        self.assertGreater(len(shards.manifest["shards"]), 2)
        self.assertEqual(len(shards), len(truth["images"]))
        self.assertEqual(list(shards.classes), [one["name"] for one in truth["categories"]])
        self.assertEqual(list(shards.category_ids), [one["id"] for one in truth["categories"]])
        self.assertEqual(shards.task, "detection")
        images = {image["id"]: image for image in truth["images"]}
        crowds = 0
        for record in shards:
            image = images.pop(record.image_id)
            self.assertEqual((record.file_name, record.width, record.height),
                             (image["file_name"], image["width"], image["height"]))
            boxes = [one for one in truth["annotations"] if one["image_id"] == record.image_id]
            self.assertEqual(record.annotation_ids.tolist(), [box["id"] for box in boxes])
            self.assertEqual(record.boxes.tolist(), [box["bbox"] for box in boxes])
            self.assertEqual(record.areas.tolist(), [box["area"] for box in boxes])
            self.assertEqual(record.crowd.tolist(), [box["iscrowd"] == 1 for box in boxes])
            self.assertEqual([shards.category_ids[label] for label in record.labels],
                             [box["category_id"] for box in boxes])
            self.assertIsNone(record.label)
            crowds += record.crowd.sum()
        self.assertEqual(images, {})
        self.assertGreater(crowds, 2)

    def test_tiles_know_their_place_and_the_first_one_its_images_boxes(self):
        need("PIL")
        import numpy
        from PIL import Image
        shards, truth = self.Shards(self.tiles), self.place.exported(self.tiles)
        self.assertEqual(len(shards.tiles), len(shards))
        self.assertEqual(shards[3:1:-1].tiles.tolist(), shards.tiles[3:1:-1].tolist())
        self.assertIsNone(self.Shards(self.scenes).tiles)
        partial, whole = 0, []
        for record, place in zip(shards, shards.tiles.tolist()):
            x, y, width, height = record.tile
            self.assertEqual([x, y, width, height], place)
            source = Image.open(self.place.path / "scenes/images/val2017" / record.file_name).convert("RGB")
            self.assertEqual(source.size, (width, height))
            cut = numpy.array(source)[y:y + record.height, x:x + record.width]
            self.assertTrue(numpy.array_equal(record.pixels(), cut))
            self.assertFalse((record.partial & record.crowd).any())
            partial += record.partial.sum()
            self.assertEqual(record.whole is not None, (x, y) == (0, 0))
            if record.whole is not None:
                whole += zip(record.whole.annotation_ids.tolist(), record.whole.boxes.tolist())
        self.assertEqual(partial, shards.manifest["counts"]["partial"])
        self.assertEqual(sorted(whole), sorted((one["id"], one["bbox"]) for one in truth["annotations"]))

    def test_an_image_is_the_file_that_was_packed(self):
        for record in self.Shards(self.scenes):
            source = self.place.path / "scenes/images/train2017" / record.file_name
            self.assertEqual(record.image, source.read_bytes())
            self.assertEqual((record.encoding, record.rescaled, record.converted), ("jpeg", False, False))
        need("PIL")
        import numpy
        from PIL import Image
        self.assertTrue(numpy.array_equal(record.pixels(), numpy.array(Image.open(source).convert("RGB"))))

    def test_arrays_have_their_documented_types_also_without_boxes(self):
        import numpy
        records = list(self.Shards(self.scenes))
        counts = [len(record.boxes) for record in records]
        for record in (records[counts.index(0)], records[counts.index(max(counts))]):
            count = len(record.labels)
            self.assertEqual((record.boxes.dtype, record.boxes.shape), (numpy.float64, (count, 4)))
            self.assertEqual((record.labels.dtype, record.crowd.dtype), (numpy.int64, numpy.bool_))
            self.assertEqual((record.areas.dtype, record.annotation_ids.dtype), (numpy.float64, numpy.int64))
            self.assertEqual(record.corners.tolist(),
                             [[x, y, x + width, y + height] for x, y, width, height in record.boxes])

    def test_a_classification_set_has_a_label_for_each_image(self):
        for folder in (self.classes, self.raw):
            shards, truth = self.Shards(folder), self.place.exported(folder)
            self.assertEqual(shards.task, "classification")
            classes = {one["image_id"]: one["category_id"] for one in truth["annotations"]}
            self.assertEqual({record.image_id: shards.category_ids[record.label] for record in shards},
                             classes)
            self.assertEqual({record.file_name: shards.classes[record.label] for record in shards},
                             {image["file_name"]: image["file_name"].split("/")[0]
                              for image in truth["images"]})
            self.assertEqual(sum(len(record.boxes) for record in shards), 0)

    def test_raw_images_are_pixels(self):
        import numpy
        for record in self.Shards(self.raw):
            self.assertEqual((record.encoding, record.rescaled), ("raw", True))
            pixels = record.pixels()
            self.assertEqual((pixels.dtype, pixels.shape), (numpy.uint8, (record.height, record.width, 3)))
            self.assertEqual(pixels.tobytes(), record.image)
            pixels[0] = 0  # may be drawn on

    def test_names_and_sizes_are_known_without_reading_records(self):
        with mock.patch("retina_batch._shards.record_spans", side_effect=AssertionError("read")):
            shards = self.Shards(self.scenes)
            images, names = shards.images, shards.file_names
            part, part_names = shards[5:1:-2].images, shards[5:1:-2].file_names
        records = list(shards)
        self.assertEqual(names, [record.file_name for record in records])
        for field, values in {"image_id": [record.image_id for record in records],
                              "width": [record.width for record in records],
                              "height": [record.height for record in records],
                              "boxes": [len(record.boxes) for record in records]}.items():
            self.assertEqual(images[field].tolist(), values)
        self.assertEqual(images["trainable_boxes"].sum(), shards.manifest["counts"]["trainable"])
        self.assertEqual((part.tolist(), part_names), (images[5:1:-2].tolist(), names[5:1:-2]))
        self.assertEqual(len(shards[3:3].images), 0)

    def test_places_and_slices_are_those_of_a_list(self):
        shards = self.Shards(self.scenes)
        names = shards.file_names
        for at in range(-len(names) - 2, len(names) + 2):
            if -len(names) <= at < len(names):
                self.assertEqual(shards[at].file_name, names[at])
            else:
                with self.assertRaisesRegex(IndexError, f"no record {at} "):
                    shards[at]
        for first, end, step in itertools.product((None, 0, 3, 30, -5), (None, 0, 7, -2, -30), (None, 2, -1, -3)):
            part, want = shards[first:end:step], names[first:end:step]
            self.assertEqual(part.file_names, want)
            self.assertEqual(part[1:-1].file_names, want[1:-1])
            self.assertEqual([record.file_name for record in part[:2]], want[:2])
        self.assertEqual([record.file_name for record in reversed(shards[:4])], names[3::-1])
        with self.assertRaises(TypeError):
            shards["1.jpg"]

    def test_nothing_is_written_locked_or_kept_open(self):
        folder = self.copy_of(self.scenes)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in (*folder.iterdir(), folder):
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.addCleanup(folder.chmod, 0o755)
        open_before = len(os.listdir("/proc/self/fd"))
        shards = self.Shards(folder)
        first = [content_of(record) for record in shards]
        self.assertEqual(len(os.listdir("/proc/self/fd")), open_before)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)
        again = pickle.loads(pickle.dumps(shards[2:]))
        self.assertEqual([content_of(record) for record in again], first[2:])

    def test_checksums_are_optional(self):
        with without_checksums():
            unchecked = [content_of(record) for record in self.Shards(self.scenes)]
        self.assertEqual([content_of(record) for record in self.Shards(self.scenes)], unchecked)

    def copy_of(self, folder):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        return pathlib.Path(shutil.copytree(folder, pathlib.Path(room.name) / "set"))


class PythonShardsDamage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("numpy")
        import retina_batch
        cls.module = retina_batch
        cls.place = workplace.Workplace(cls)
        cls.place.render_scenes(6, 1)
        cls.scenes = cls.place.pack_scenes("train", "--shard-size", "64KiB")
        cls.classes = cls.place.pack_classes("classes", 60, 16)

    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = pathlib.Path(shutil.copytree(self.scenes, pathlib.Path(room.name) / "set"))
        self.shard = sorted(self.folder.glob("*.lmdb"))[0]

    def read_all(self, folder=None):
        return [content_of(record) for record in self.module.Shards(folder or self.folder)]

    def expect_refusal(self, path, *words):
        """One line that names the file."""
        with self.assertRaises(self.module.DataError) as caught:
            self.read_all()
        problem, mark, hint = str(caught.exception).partition("; hint: ")
        self.assertTrue(problem.startswith(f"{path}: "), problem)
        self.assertTrue(mark and hint, problem)
        self.assertEqual(len(str(caught.exception).splitlines()), 1)
        for word in words:
            self.assertIn(word, problem)

    @staticmethod
    def change(path, at, content):
        whole = bytearray(path.read_bytes())
        whole[at:at + len(content)] = content
        path.write_bytes(whole)

    @staticmethod
    def record_at(path):
        """Where record 0 begins."""
        return int(record_spans(path)[0][0])

    def test_what_is_not_a_data_set_is_not_found(self):
        for path in (self.folder / "absent", self.folder / "report.html", self.place.path):
            with self.assertRaisesRegex(FileNotFoundError, r"^/.*manifest.json: .*; hint: .*coco-pack"):
                self.module.Shards(path)

    def test_a_manifest_that_is_foreign_edited_or_of_another_version_is_refused(self):
        manifest = self.folder / "manifest.json"
        text = manifest.read_text()
        for content in ("", "[]", "{}", '"x"', "\0\1", '{"format": "x", "version": 1}'):
            manifest.write_text(content)
            self.expect_refusal(manifest, "is not a shard manifest")
        for old, new, words in (
                ('"retina-batch shards"', '"webdataset"', 'got format "webdataset", want "retina-batch shards"'),
                ('"version": 3', '"version": 4', "by a newer version (got format version 4, want 3)"),
                ('"version": 3', '"version": 2', "by an earlier version (got format version 2, want 3)"),
                ('"detection"', '"segmentation"', 'got "segmentation"'),
                ('"records": ', '"records": -', "is damaged ("), ('"categories"', '"kategories"', "is damaged ("),
                ('"file": "', '"file": "../', "is damaged ("), ('"xxh3": "', '"xxh3": "x', "is damaged ("),
                ('"id": ', '"id": "x", "i": ', "is damaged (")):
            manifest.write_text(text.replace(old, new, 1))
            self.assertNotEqual(manifest.read_text(), text)
            with self.subTest(new), without_checksums():
                self.expect_refusal(manifest, words)
        need("xxhash")
        for edited in (text.replace('"disc"', '"disk"'), text.rstrip(), text.replace('"xxh3"', '"xxh4"')):
            manifest.write_text(edited)
            self.expect_refusal(manifest, "is damaged or was edited")

    def test_other_versions_of_index_and_records_are_refused(self):
        index = self.folder / "index.bin"
        for version, writer in ((7, "a newer"), (5, "an earlier")):
            self.change(index, 4, bytes([version, 0]))
            self.expect_refusal(index, f"by {writer} version (got index version {version}, want 6)")
        self.change(index, 4, b"\x06\0")
        self.change(self.shard, self.record_at(self.shard) + 4, b"\x03\0")
        with without_checksums():  # which cover the version
            self.expect_refusal(self.shard, "record 0 (", "got record version 3, want 2")
            self.change(self.shard, self.record_at(self.shard), b"XXXX")
            self.expect_refusal(self.shard, "is not a retina-batch record")
        self.change(self.shard, 16, b"XXXX")
        self.expect_refusal(self.shard, "is not an LMDB file")

    def test_files_that_are_cut_longer_or_missing_are_named(self):
        for path in (self.folder / "index.bin", self.shard):
            whole = path.read_bytes()
            for content, words in ((whole[:-1], "is cut short"), (whole + b"x", "is too long")):
                path.write_bytes(content)
                self.expect_refusal(path, f"{words} (got {len(content)} bytes, want {len(whole)})")
                with self.assertRaisesRegex(self.module.DataError, words):
                    self.module.Shards(self.folder)  # before a record is read
            path.unlink()
            with self.assertRaisesRegex(FileNotFoundError, re.escape(str(path))):
                self.read_all()
            path.write_bytes(whole)

    def test_a_shard_that_is_cut_while_it_is_in_use_is_an_error(self):
        shards = self.module.Shards(self.folder)
        self.assertGreater(shards.manifest["shards"][0]["records"], 1)
        shards[0]
        self.shard.write_bytes(self.shard.read_bytes()[:8192])
        with self.assertRaisesRegex(self.module.DataError, "record 1 .*(not a retina-batch record|length)"):
            shards[1]

    def test_every_offset_of_a_shards_tree_is_checked(self):
        """Numbers are changed at their place in a page or in its first node; a leaf of small records,
        one of records on pages of their own, and a branch."""
        small = next(self.classes.glob("*.lmdb"))
        large = sorted(self.scenes.glob("*.lmdb"))[0]
        root, leaf, far = tree_root(small), tree_root(large), 2**40
        page, node = (lambda at: ("page", at)), (lambda at: ("node", at))
        for shard, number, (where, at), form, value, words in (
                (small, newest_meta(small), page(20), "<I", 2, "its newer meta page is not one of LMDB 0.9"),
                (small, newest_meta(small), page(128), "<Q", far, f"page {far} lies outside the file"),
                (small, newest_meta(small), page(128), "<Q", 1, "page 1 lies outside the file"),
                (small, root, page(0), "<Q", 99, "is not a page of the tree"),
                (small, root, page(10), "<H", 4, "is not a page of the tree"),
                (small, root, page(12), "<H", 21, "has a wrong number of nodes"),
                (small, root, page(12), "<H", 65534, "has a wrong number of nodes"),
                (small, root, page(12), "<H", 14, "has a wrong number of nodes"),
                (small, root, page(16), "<H", 65535, "has a node outside it"),
                (small, root, page(16), "<H", 16, "has a node outside it"),
                (small, root, node(0), "<I", root, f"page {root} is used twice"),
                (small, root, node(4), "<H", 1, "lies outside the file"),
                (large, leaf, node(6), "<H", 9, "lacks record 0"),
                (large, leaf, node(8), ">Q", 1, "lacks record 0"),
                (large, leaf, node(4), "<H", 0, "has record 0 outside it"),
                (large, leaf, node(4), "<H", 3, "has record 0 outside it"),
                (large, leaf, node(0), "<I", 2**32 - 1, "has record 0 outside the file"),
                (large, leaf, node(16), "<Q", far, "has record 0 outside the file"),
                (large, leaf, node(16), "<Q", 1, "has record 0 outside the file")):
            content = bytearray(shard.read_bytes())
            page_at = number * page_bytes(content)
            first_node, = struct.unpack_from("<H", content, page_at + 16)
            struct.pack_into(form, content, page_at + at + (first_node if where == "node" else 0), value)
            self.shard.write_bytes(content)
            with self.subTest(words, where=where, at=at, value=value):
                with self.assertRaisesRegex(self.module.DataError, f"^{self.shard}: .*{words}; hint: "):
                    record_spans(self.shard)

    def test_every_length_of_the_index_is_checked(self):
        index, manifest = self.folder / "index.bin", self.folder / "manifest.json"
        whole, text = index.read_bytes(), manifest.read_text()
        labels_at = 24 + 32 * len(self.module.Shards(self.folder))
        for content, words in (
                (whole[:8] + b"\xff" + whole[9:], "want 255 entries of 32"),
                (whole[:6] + b"\x21" + whole[7:], "has a wrong length"),
                (whole[:8] + b"\x05" + whole[9:], "does not list the records of the manifest's shards (got 5 "),
                (whole[:24 + 28] + b"\x09" + whole[24 + 29:], "does not list the records"),
                (whole[:labels_at] + b"\xff" * 4 + whole[labels_at + 4:], "ends inside its labels or file"),
                (whole[:-1], "has a wrong length"), (whole + b"xyz", "has a wrong length"),
                (whole[:20], "is not an image index")):
            index.write_bytes(content)
            manifest.write_text(text.replace(f'"bytes": {len(whole)}', f'"bytes": {len(content)}'))
            with self.subTest(words), without_checksums():
                self.expect_refusal(index, words)

    def test_a_damaged_record_is_named_with_its_image(self):
        need("xxhash")
        spans = record_spans(self.shard)
        name = self.module.Shards(self.folder).file_names[1]
        for at, words in ((8, "header is damaged"), (48, "content is damaged"),
                          (int(spans[1][1]) - 1, "content is damaged")):
            whole = self.shard.read_bytes()
            at += int(spans[1][0])
            self.change(self.shard, at, bytes([whole[at] ^ 1]))
            self.expect_refusal(f"{self.shard}: record 1 ({name})", words)
            self.shard.write_bytes(whole)

    def test_what_a_record_says_is_checked_without_checksums(self):
        name = self.module.Shards(self.folder).file_names[0]
        annotation_bytes, = struct.unpack_from("<I", self.shard.read_bytes(), self.record_at(self.shard) + 24)
        # Numbers at their place in the record, whose annotations begin with the block of boxes.
        for at, number, words in ((8, 77, "disagrees with the index (got image 77, "),
                                  (16, 7, "disagrees with the index"), (16, 0, "has an impossible image size"),
                                  (24, 8, "has a wrong length (got "), (28, 8, "has a wrong length (got "),
                                  (48, 2, "has a wrong class of the whole image"),
                                  (48, 9, "disagrees with the index"), (48, 3, "more than one block of type 3"),
                                  (52, 0xFFFFFFFF, "annotation block is cut short"),
                                  (52, annotation_bytes - 8, "want a multiple of 56"),
                                  (104, 5, "class label is out of range (got 5, want less than 5)"),
                                  (104, 0xFFFFFFFF, "class label is out of range (got -1,")):
            whole = self.shard.read_bytes()
            self.change(self.shard, self.record_at(self.shard) + at, struct.pack("<I", number))
            with self.subTest(at=at, number=number), without_checksums():
                self.expect_refusal(f"{self.shard}: record 0 ({name})", words)
            self.shard.write_bytes(whole)

    def test_messages_stay_one_line_whatever_a_name_holds(self):
        from retina_batch._checks import damaged
        text = str(damaged("a\nb\r\x1b[0m\u2028\udcff", "is bad"))
        self.assertEqual(text.splitlines(), [text])
        self.assertTrue(text.isprintable())

    def test_any_flipped_byte_is_found_or_changes_nothing_and_without_checksums_raises_nothing_else(self):
        with without_checksums():
            self.flip_bytes(200, is_checked=False)
        need("xxhash")
        self.flip_bytes(200, is_checked=True)

    def flip_bytes(self, count, is_checked):
        """Flips one byte of a file of a set, and then of the pages of a shard's tree, and reads all."""
        rng = random.Random(SEED)
        refused = 0
        for source in (self.scenes, self.classes):
            wanted = self.read_all(source)
            folder = pathlib.Path(shutil.copytree(source, self.folder.parent / source.name, dirs_exist_ok=True))
            files = [path for path in sorted(folder.iterdir())
                     if path.suffix == ".lmdb" or path.name in ("manifest.json", "index.bin")]
            for _ in range(count // 2):
                path = rng.choice(files)
                whole = path.read_bytes()
                is_tree = path.suffix == ".lmdb" and rng.random() < .7
                at = rng.choice(list(tree_bytes(whole))) if is_tree else rng.randrange(len(whole))
                self.change(path, at, bytes([whole[at] ^ (1 << rng.randrange(8))]))
                try:
                    got = self.read_all(folder)
                    if is_checked:
                        self.assertEqual(got, wanted, f"{path.name} at {at}, seed {SEED}")
                except self.module.DataError as error:
                    refused += 1
                    self.assertEqual(len(str(error).splitlines()), 1)
                except FileNotFoundError:
                    self.assertEqual(path.name, "manifest.json")  # which now names another file
                path.write_bytes(whole)
        self.assertGreater(refused, count // 4, f"seed {SEED}")


def page_bytes(shard):
    return struct.unpack_from("<I", shard, 40)[0]


def newest_meta(path):
    """The meta page with the later transaction."""
    shard = path.read_bytes()
    first, second = (struct.unpack_from("<Q", shard, at + 144) for at in (0, page_bytes(shard)))
    return int(second > first)


def tree_root(path):
    shard = path.read_bytes()
    return struct.unpack_from("<Q", shard, newest_meta(path) * page_bytes(shard) + 128)[0]


def tree_bytes(shard):
    """The places of the meta pages' fields, and of headers and nodes on the other pages."""
    page = 0
    while page < len(shard) // page_bytes(shard):
        at = page * page_bytes(shard)
        flags, offsets_end = struct.unpack_from("<HH", shard, at + 10)
        run, = struct.unpack_from("<I", shard, at + 12)
        if page < 2:
            yield from range(at + 16, at + 152)
        elif flags & 3:
            yield from range(at, at + offsets_end)
            for node in struct.unpack_from(f"<{(offsets_end - 16) // 2}H", shard, at + 16):
                yield from range(at + node, at + node + 24)
        page += run if flags & 4 else 1


if __name__ == "__main__":
    unittest.main()
