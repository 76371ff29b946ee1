#!/usr/bin/env python3
"""How long coco-pack takes to read annotations, and in how much memory.

    python3 tests/bench/data/annotations.py [--images 2000000] [--boxes 30000000]

Writes a synthetic COCO file into $TMPDIR (140 bytes a box: 4.2 GB), whose boxes of an image are scattered as in COCO's
own, and has coco-pack read it up to the first image, which is missing. Prints a line of JSON.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path

COCO_PACK = Path(__file__).resolve().parents[3] / "build/bin/coco-pack"
CLASSES = 80
NO_IMAGE = 65  # the exit code


def box(draw):
    x, y, width, height = (draw.randint(100, 20000) / 100 for _ in range(4))
    return (f'"iscrowd": 0, "area": {width * height * .6!r}, "bbox": [{x}, {y}, {width}, {height}], '
            f'"category_id": {draw.randint(1, CLASSES)}}}')


def write(path, images, boxes):
    draw = random.Random(1)
    some = [box(draw) for _ in range(4096)]
    with open(path, "w", buffering=1 << 20, encoding="utf-8") as file:
        file.write('{"images": [')
        for i in range(1, images + 1):
            file.write(f'{"," if i > 1 else ""}{{"license": 3, "file_name": "{i:012}.jpg", "height": 480, '
                       f'"width": 640, "id": {i}}}')
        file.write('], "annotations": [')
        for i in range(1, boxes + 1):
            image = i * 1000003 % images + 1
            file.write(f'{"," if i > 1 else ""}{{"id": {i}, "image_id": {image}, {some[i % len(some)]}')
        file.write('], "categories": ')
        json.dump([{"id": i, "name": f"class {i}"} for i in range(1, CLASSES + 1)], file)
        file.write("}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2_000_000)
    parser.add_argument("--boxes", type=int, default=30_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "annotations.json")
        write(path, options.images, options.boxes)
        images = Path(folder, "images")
        images.mkdir()
        (images / "other").write_text("")  # an empty folder may be a mount that is gone
        begin = time.monotonic()
        done = subprocess.run([COCO_PACK, "--annotations", path, "--images", images, "--output", Path(folder, "set"),
                               "--on-bad-image", "fail"], stderr=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - begin
        if done.returncode != NO_IMAGE:
            raise SystemExit(done.stderr)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(json.dumps({"bench": "annotations", "images": options.images, "boxes": options.boxes,
                          "bytes": path.stat().st_size, "cores": len(os.sched_getaffinity(0)), "seconds": seconds,
                          "cpu_seconds": used.ru_utime + used.ru_stime,
                          "most_memory_bytes": used.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
