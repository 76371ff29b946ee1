#!/usr/bin/env python3
"""Makes the goldens of tests/image from the references: torch's F.interpolate, torchvision's size
rule. The C++ tests read the text files and need no Python.

    make_golden.py            writes resize.txt, sizes.txt next to this script
    make_golden.py --check    compares instead; exit 1 when a reference has moved
"""
import math
import pathlib
import sys

import numpy
import torch

HERE = pathlib.Path(__file__).parent
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# width, height -> width, height
CASES = [
    (1, 1, 5, 3), (2, 3, 7, 11), (37, 23, 61, 38), (64, 48, 64, 48), (64, 48, 64, 96),
    (640, 480, 1066, 800), (640, 480, 256, 192), (500, 375, 1067, 800), (427, 640, 800, 1199),
    (1920, 1080, 1333, 749), (3, 2000, 2, 1333), (4000, 30, 1333, 9),
]
SAMPLES_PER_CASE = 60


def pattern(width, height):
    """The image that resize_test.cpp makes too: [3, H, W], bytes."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.int64)
    return numpy.stack([(x * 7 + y * 13 + c * 29 + x * y) % 256 for c in range(3)])


def resize_lines():
    generator = numpy.random.default_rng(2026)
    mean, std = (torch.tensor(v, dtype=torch.float32)[:, None, None] for v in (MEAN, STD))
    for width, height, to_width, to_height in CASES:
        image = torch.from_numpy(pattern(width, height)).to(torch.uint8).to(torch.float32).div(255)
        image = (image - mean) / std
        out = torch.nn.functional.interpolate(
            image[None], size=(to_height, to_width), mode="bilinear", align_corners=False)[0]
        yield f"case {width} {height} {to_width} {to_height}"
        places = [(0, 0, 0), (1, 0, to_width - 1), (2, to_height - 1, 0),
                  (0, to_height - 1, to_width - 1)]
        places += [(int(generator.integers(3)), int(generator.integers(to_height)),
                    int(generator.integers(to_width))) for _ in range(SAMPLES_PER_CASE)]
        for c, y, x in places:
            yield f"{c} {y} {x} {out[c, y, x].item():.9g}"


def size_lines():
    """torchvision/models/detection/transform.py, _resize_image_and_masks, eager branch."""
    generator = numpy.random.default_rng(2027)
    for number in range(400):
        width, height = (int(v) for v in generator.integers(1, 3000, 2))
        low, high = ((800, 1333), (192, 256), (640, 640), (512, 1024))[number % 4]
        if number % 10 == 0:  # exact ratios, where rounding bites
            width, height = 3 * (number + 16), 2 * (number + 16)
        scale = min(low / min(height, width), high / max(height, width))
        out = torch.nn.functional.interpolate(
            torch.zeros(1, 1, height, width), scale_factor=scale, mode="bilinear",
            recompute_scale_factor=True, align_corners=False) \
            if min(math.floor(height * scale), math.floor(width * scale)) > 0 else None
        if out is not None:
            yield f"{width} {height} {low} {high} {out.shape[3]} {out.shape[2]}"


def main():
    stale = []
    for name, lines in (("resize.txt", resize_lines()), ("sizes.txt", size_lines())):
        text = f"# torch {torch.__version__.split('+')[0]}, make_golden.py\n" + \
            "\n".join(lines) + "\n"
        if "--check" not in sys.argv:
            (HERE / name).write_text(text)
        elif (HERE / name).read_text() != text:
            stale.append(name)
    if stale:
        sys.exit(f"the reference no longer gives {', '.join(stale)}")


if __name__ == "__main__":
    main()
