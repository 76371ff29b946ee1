"""What training sees of a smooth image under each random change is what Pillow makes of it, within
0.5 grey level; the boxes are where the corners go, within 1e-3 px.

The draws themselves are random: each test reads the one number that it needs from the sample's matrix
and has Pillow do the rest. Runs with the wheels of tests/jobs; skips without Pillow.
"""
import array
import colorsys
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    from PIL import Image
except ImportError:
    Image = None

BIN = pathlib.Path(os.environ.get("RETINA_BUILD", "build")) / "bin"
WIDTH, HEIGHT = 120, 90
BOXES = [[10, 12, 30, 20], [60.5, 40.25, 40, 30], [100, 70, 20, 20], [0, 30, 119.5, 9]]  # xywh
DRAWS = 6
FAR = 150  # how far the image's edges are repeated for fill=nearest


def smooth_image():
    def level(channel, x, y):
        return 128 + 55 * math.sin(0.05 * x * (1 + 0.3 * channel) + 0.04 * y + channel)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    image.putdata([tuple(round(level(c, x, y)) for c in range(3))
                     for y in range(HEIGHT) for x in range(WIDTH)])
    return image


def with_edges(plane):
    """The plane with its edge pixels repeated FAR beyond them."""
    pixels = plane.load()
    wide = Image.new("F", (WIDTH + 2 * FAR, HEIGHT + 2 * FAR))
    wide.putdata([pixels[min(max(x - FAR, 0), WIDTH - 1), min(max(y - FAR, 0), HEIGHT - 1)]
                  for y in range(wide.height) for x in range(wide.width)])
    return wide


def about_middle(a, b, c, d):
    """(x, y) -> (a x + b y, c x + d y) about the image's middle."""
    x, y = WIDTH / 2, HEIGHT / 2
    return [a, b, x - a * x - b * y, c, d, y - c * x - d * y]


@unittest.skipIf(Image is None, "Pillow is not installed: make test installs it")
class AugmentGeometry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "images").mkdir()
        smooth_image().save(cls.path / "images/a.jpg", quality=95, subsampling=0)
        cls.image = Image.open(cls.path / "images/a.jpg").convert("RGB")
        cls.planes = [plane.convert("F") for plane in cls.image.split()]
        cls.wide_planes = [with_edges(plane) for plane in cls.planes]
        annotations = [{"id": i, "image_id": 1, "category_id": i, "bbox": box, "iscrowd": 0,
                        "area": box[2] * box[3]} for i, box in enumerate(BOXES, 1)]
        (cls.path / "boxes.json").write_text(json.dumps(
            {"images": [{"id": 1, "file_name": "a.jpg", "width": WIDTH, "height": HEIGHT}],
             "annotations": annotations,
             "categories": [{"id": i, "name": str(i)} for i in range(1, len(BOXES) + 1)]}))
        subprocess.run([BIN / "coco-pack", "--annotations", cls.path / "boxes.json", "--images",
                        cls.path / "images", "--output", cls.path / "shards"],
                       check=True, capture_output=True)

    def samples(self, *options, min_side=HEIGHT, draws=DRAWS):
        """Samples with their planes, in grey levels."""
        done = subprocess.run([BIN / "augmented_samples", "--train", self.path / "shards", "--output",
                               self.path, "--min-side", str(min_side), "--epochs", str(draws),
                               "--augment", ",".join(["none", *options])],
                              check=True, stdout=subprocess.PIPE, timeout=60)
        samples = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(samples), draws)
        for number, sample in enumerate(samples):
            values = array.array("f", (self.path / f"{number}.f32").read_bytes())
            count = sample["width"] * sample["height"]
            self.assertEqual(len(values), 3 * count)
            sample["planes"] = [[255 * v for v in values[c * count:(c + 1) * count]]
                                for c in range(3)]
        return samples

    def expect_pixels(self, sample, planes):
        for ours, theirs in zip(sample["planes"], planes):
            self.assertEqual(theirs.size, (sample["width"], sample["height"]))
            worst = max(abs(a - b) for a, b in zip(ours, theirs.get_flattened_data()))
            self.assertLess(worst, 0.5)

    def expect_boxes(self, sample, to_source):
        """The hulls of the corners, clipped; boxes of which less than a quarter is left are gone."""
        a, b, x0, c, d, y0 = to_source
        determinant = a * d - b * c
        want, labels = [], []
        for label, (left, top, width, height) in enumerate(BOXES):
            corners = [(left + i * width - x0, top + j * height - y0) for i in (0, 1) for j in (0, 1)]
            xs = [(d * x - b * y) / determinant for x, y in corners]
            ys = [(a * y - c * x) / determinant for x, y in corners]
            box = [max(min(xs), 0), max(min(ys), 0), min(max(xs), sample["width"]),
                   min(max(ys), sample["height"])]
            hull = (max(xs) - min(xs)) * (max(ys) - min(ys))
            if box[2] > box[0] and box[3] > box[1]:
                if (box[2] - box[0]) * (box[3] - box[1]) >= 0.25 * hull:
                    want.append(box)
                    labels.append(label)
        self.assertEqual(sample["labels"], labels)
        for ours, theirs in zip(sample["boxes"], want):
            self.assertLess(max(abs(x - y) for x, y in zip(ours, theirs)), 1e-3)

    def affine(self, sample, to_source, fill):
        """Pillow's transform with the matrix from pixels of the output to those of the image."""
        a, b, x, c, d, y = to_source
        planes = self.planes
        if fill == "nearest":
            planes, x, y = self.wide_planes, x + FAR, y + FAR
        return [plane.transform((sample["width"], sample["height"]), Image.Transform.AFFINE,
                                (a, b, x, c, d, y), Image.Resampling.BILINEAR, fillcolor=0)
                for plane in planes]

    def expect_affine(self, sample, to_source, fill="nearest"):
        self.expect_pixels(sample, self.affine(sample, to_source, fill))
        self.expect_boxes(sample, to_source)

    def expect_region(self, sample, left, top, width, height):
        """Pillow's resize of that part, which is plain bilinear where it enlarges."""
        self.assertGreaterEqual(min(left, top), -1e-9)
        self.assertLessEqual(left + width, WIDTH + 1e-9)
        self.assertLessEqual(top + height, HEIGHT + 1e-9)
        box = (max(left, 0), max(top, 0), min(left + width, WIDTH), min(top + height, HEIGHT))
        size = (sample["width"], sample["height"])
        self.expect_pixels(sample, [plane.resize(size, Image.Resampling.BILINEAR, box)
                                    for plane in self.planes])
        self.expect_boxes(sample, [width / size[0], 0, left, 0, height / size[1], top])

    def test_multi_scale(self):
        for min_side in (90, 120, 200):
            [sample] = self.samples(min_side=min_side, draws=1)
            self.assertEqual((sample["width"], sample["height"]), (min_side * 4 // 3, min_side))
            self.expect_region(sample, 0, 0, WIDTH, HEIGHT)
        for min_side in (45, 72):  # Pillow's resize would blur here
            [sample] = self.samples(min_side=min_side, draws=1)
            self.expect_affine(sample, [WIDTH / sample["width"], 0, 0, 0, HEIGHT / sample["height"], 0])

    def test_flip(self):
        for sample in self.samples("flip=1", draws=2):
            self.assertTrue(sample["flip"] and not sample["is_warped"])
            self.expect_pixels(sample, [plane.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
                                        for plane in self.planes])
            self.expect_boxes(sample, [-1, 0, WIDTH, 0, 1, 0])

    def test_vertical_flip(self):
        for sample in self.samples("vertical-flip=1", draws=2):
            self.expect_pixels(sample, [plane.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
                                        for plane in self.planes])
            self.expect_boxes(sample, [1, 0, 0, 0, -1, HEIGHT])

    def test_rotation(self):
        seen = set()
        for fill in ("nearest", "constant"):
            for sample in self.samples("rotation=0.6", f"fill={fill}"):
                # Backwards in fractions: [cos a, sin a H/W], [-sin a W/H, cos a].
                angle = math.atan2(sample["source_of"][1] * WIDTH / HEIGHT, sample["source_of"][0])
                seen.add(angle)
                c, s = math.cos(angle), math.sin(angle)
                self.expect_affine(sample, about_middle(c, s, -s, c), fill)
                if fill == "constant":  # Pillow's angle is anticlockwise on the screen
                    self.expect_pixels(sample, [plane.rotate(-math.degrees(angle),
                                                             Image.Resampling.BILINEAR, fillcolor=0)
                                                for plane in self.planes])
        self.assertGreater(max(seen) - min(seen), 0.3)

    def test_shear(self):
        for fill in ("nearest", "constant"):
            for sample in self.samples("shear=0.5", f"fill={fill}"):
                # Forwards x - y sin s, y cos s.
                angle = math.atan(sample["source_of"][1] * WIDTH / HEIGHT)
                self.expect_affine(sample, about_middle(1, math.tan(angle), 0, 1 / math.cos(angle)),
                                   fill)

    def test_translation(self):
        for fill in ("nearest", "constant"):
            for sample in self.samples("translation=0.4", f"fill={fill}"):
                x, y = sample["source_of"][2] * WIDTH, sample["source_of"][5] * HEIGHT
                self.assertLessEqual(max(abs(x) / WIDTH, abs(y) / HEIGHT), 0.4)
                self.expect_affine(sample, [1, 0, x, 0, 1, y], fill)

    def test_scale_about_the_middle(self):
        for sample in self.samples("scale=1.1:1.9"):
            width, height = WIDTH * sample["source_of"][0], HEIGHT * sample["source_of"][4]
            self.assertNotAlmostEqual(width / WIDTH, height / HEIGHT)
            self.expect_region(sample, (WIDTH - width) / 2, (HEIGHT - height) / 2, width, height)
        for fill in ("nearest", "constant"):
            for sample in self.samples("scale=0.4:0.9", f"fill={fill}"):
                self.expect_affine(sample, about_middle(sample["source_of"][0], 0, 0,
                                                        sample["source_of"][4]), fill)

    def test_scale_jitter(self):
        for sample in self.samples("scale-jitter=1.1:2", min_side=120):
            m = sample["source_of"]
            self.assertAlmostEqual(m[0], m[4])
            self.expect_region(sample, m[2] * WIDTH, m[5] * HEIGHT, m[0] * WIDTH, m[0] * HEIGHT)
        for fill in ("nearest", "constant"):
            for sample in self.samples("scale-jitter=0.4:0.9", f"fill={fill}"):
                scale = 1 / sample["source_of"][0]
                left, top = (-sample["source_of"][i] * scale * side
                             for i, side in ((2, WIDTH), (5, HEIGHT)))
                self.assertTrue(0 <= left <= WIDTH * (1 - scale) + 1e-9)
                self.assertTrue(0 <= top <= HEIGHT * (1 - scale) + 1e-9)
                self.expect_affine(sample, [1 / scale, 0, -left / scale, 0, 1 / scale, -top / scale],
                                   fill)

    def test_crop(self):
        for sample in self.samples("crop=0.2:0.9", min_side=110):
            m = sample["source_of"]
            self.assertTrue(0.2 <= m[0] * m[4] <= 0.9)
            self.assertTrue(3 / 4 - 1e-9 <= m[0] / m[4] <= 4 / 3 + 1e-9)
            self.expect_region(sample, m[2] * WIDTH, m[5] * HEIGHT, m[0] * WIDTH, m[4] * HEIGHT)

    def test_all_geometry_at_once(self):
        for fill in ("nearest", "constant"):
            mirrored = set()
            for sample in self.samples("flip=0.5", "vertical-flip=0.5", "rotation=3",
                                       "shear=0.3", "translation=0.2", "scale=0.6:1.4",
                                       f"fill={fill}", min_side=75, draws=12):
                m = sample["source_of"]
                per_x, per_y = 1 / sample["width"], 1 / sample["height"]
                to_source = [WIDTH * m[0] * per_x, WIDTH * m[1] * per_y, WIDTH * m[2],
                             HEIGHT * m[3] * per_x, HEIGHT * m[4] * per_y, HEIGHT * m[5]]
                mirrored.add(sample["flip"])
                if sample["flip"]:  # the matrix is of the mirrored image
                    to_source[:3] = -to_source[0], -to_source[1], WIDTH - to_source[2]
                self.expect_affine(sample, to_source, fill)
            self.assertEqual(mirrored, {False, True})

    def expect_colours(self, sample, change):
        """Of `change`, from the three values of a pixel between 0 and 1 to three others."""
        planes = [Image.new("F", self.image.size) for _ in range(3)]
        pixels = [change(*(value / 255 for value in pixel))
                  for pixel in self.image.get_flattened_data()]
        for c, plane in enumerate(planes):
            plane.putdata([255 * pixel[c] for pixel in pixels])
        self.expect_pixels(sample, planes)
        self.expect_boxes(sample, [1, 0, 0, 0, 1, 0])

    def test_brightness(self):
        for sample in self.samples("brightness=0.15"):
            added = sample["colour"][3]
            self.assertTrue(0 < abs(added) <= 0.15)
            self.expect_colours(sample, lambda *rgb: [v + added for v in rgb])

    def test_contrast(self):
        for factor in (0.6, 0.9, 1.3):
            [sample] = self.samples(f"contrast={factor}:{factor}", draws=1)
            self.expect_colours(sample, lambda *rgb: [0.5 + factor * (v - 0.5) for v in rgb])

    def test_saturation(self):
        """The luma is Pillow's (ITU-R 601-2)."""
        luma = Image.new("RGB", (1, 1))
        for factor in (0.5, 0.8, 1.3):
            [sample] = self.samples(f"saturation={factor}:{factor}", draws=1)

            def change(*rgb):
                luma.putpixel((0, 0), tuple(round(255 * v) for v in rgb))
                grey = luma.convert("F").getpixel((0, 0)) / 255
                return [grey + factor * (v - grey) for v in rgb]
            self.expect_colours(sample, change)

    def test_hue(self):
        """The chroma turns in the I-Q plane of Python's YIQ, which rounds its weights to 0.01."""
        orange = (0.6, 0.5, 0.4)
        for sample in self.samples("hue=0.05"):
            m = sample["colour"]
            turned = [sum(m[4 * c + k] * orange[k] for k in range(3)) for c in range(3)]
            angles = [math.atan2(*reversed(colorsys.rgb_to_yiq(*rgb)[1:])) for rgb in (orange, turned)]
            angle = angles[1] - angles[0]
            self.assertTrue(0 < abs(angle) < 1.01 * 0.05 * 2 * math.pi)
            c, s = math.cos(angle), math.sin(angle)

            def change(*rgb):
                y, i, q = colorsys.rgb_to_yiq(*rgb)
                return colorsys.yiq_to_rgb(y, i * c - q * s, i * s + q * c)
            self.expect_colours(sample, change)


if __name__ == "__main__":
    sys.exit(unittest.main())
