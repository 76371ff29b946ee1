"""PNG, TIFF and WebP files that Pillow writes have the pixels that Pillow reads: convert("RGB") bit for bit.

Runs with the wheels of tests/jobs; skips without Pillow.
"""
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    from PIL import Image, features
except ImportError:
    Image = None

PROGRAM = pathlib.Path(os.environ.get("RETINA_BUILD", "build")) / "bin/decode_image"
SIZE = (37, 23)


def noise(mode, seed):
    """Random bytes as an image of this mode; a smooth part, so that every filter is used."""
    channels = {"1": 1, "L": 1, "LA": 2, "P": 1, "RGB": 3, "RGBA": 4}[mode]
    source = random.Random(seed)
    width, height = SIZE
    data = bytes(source.randrange(256) if x < width // 2 else (x * 3 + y * 2 + c * 50) % 256
                 for y in range(height) for x in range(width) for c in range(channels))
    if mode == "1":
        return Image.frombytes("L", SIZE, data).convert("1")
    image = Image.frombytes(mode, SIZE, data)
    if mode == "P":
        image.putpalette(bytes(source.randrange(256) for _ in range(768)))
    return image


@unittest.skipIf(Image is None, "Pillow is not installed: make test installs it")
class Pillow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "image")

    def expect_equal(self, content, message):
        self.path.write_bytes(content)
        done = subprocess.run([PROGRAM, self.path], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = Image.open(io.BytesIO(done.stdout))
        theirs = Image.open(io.BytesIO(content)).convert("RGB")
        self.assertEqual(ours.size, theirs.size, message)
        self.assertEqual(ours.tobytes(), theirs.tobytes(), message)

    def saved(self, image, **options):
        out = io.BytesIO()
        image.save(out, **options)
        return out.getvalue()

    def test_png_of_every_mode(self):
        for seed, mode in enumerate(["1", "L", "LA", "P", "RGB", "RGBA"]):
            self.expect_equal(self.saved(noise(mode, seed), format="PNG"), mode)
        self.expect_equal(self.saved(noise("P", 9), format="PNG", transparency=3), "P with tRNS")
        self.expect_equal(self.saved(noise("RGB", 8), format="PNG", transparency=(1, 2, 3),
                                     dpi=(96, 96), exif=Image.Exif()), "RGB with tRNS")

    def test_png_with_few_grey_levels(self):
        for bits in (2, 4):
            self.expect_equal(self.saved(noise("P", bits).quantize(1 << bits), format="PNG",
                                         bits=bits), f"{bits} bits")

    def test_lossless_webp(self):
        for seed, mode in enumerate(["RGB", "RGBA"]):
            for options in ({}, {"exact": True}):
                self.expect_equal(self.saved(noise(mode, seed), format="WEBP", lossless=True,
                                             **options), f"{mode} {options}")

    def test_lossy_webp(self):
        self.expect_equal(self.saved(noise("RGB", 1), format="WEBP", quality=80), "lossy")

    def test_tiff_of_every_mode_and_compression(self):
        for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            for seed, mode in enumerate(["1", "L", "LA", "P", "RGB", "RGBA"]):
                self.expect_equal(self.saved(noise(mode, seed), format="TIFF",
                                             compression=compression), f"{mode} {compression}")

    def test_tiff_of_several_pages(self):
        self.expect_equal(self.saved(noise("RGB", 3), format="TIFF", save_all=True,
                                     append_images=[noise("RGB", 4)]), "two pages")

    def test_exif_orientation_is_ignored(self):
        exif = Image.Exif()
        exif[0x0112] = 6
        for kind in ("PNG", "WEBP", "JPEG"):  # of a TIFF Pillow applies it
            options = {"lossless": True} if kind == "WEBP" else {}
            self.expect_equal(self.saved(noise("RGB", 2), format=kind, exif=exif, **options), kind)


if __name__ == "__main__":
    sys.exit(unittest.main())
