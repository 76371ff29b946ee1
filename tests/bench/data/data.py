#!/usr/bin/env python3
"""How fast photographs come into shards, beside cp, and from there into batches, beside torch's DataLoader,
DALI (CPU) and OpenCV.

    python3 tests/bench/data/data.py --photographs DIR [--packed 4096] [--images 256] [--rounds 5] [--peers NAMES]

Packs the JPEGs of DIR, each under many ids, and copies them (cp -r, then sync); then packs fewer of them, and
runs build/bin/bench_data on these and the peers that are installed for this Python (torch and torchvision, nvidia-dali-cuda120,
opencv-python-headless) in turn, and prints one line of JSON a case: the median of the rounds, in images per
second.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = HERE.parents[2] / "build/bin"
# Name of the case: the arguments of peers.py. 512 x 512 has the pixels of our "512" cases.
PEERS = {
    "torch DataLoader 512, 0 workers": ("torch", 0, 512),
    "torch DataLoader 512, 1 worker": ("torch", 1, 512),
    "torch DataLoader 512, 2 workers": ("torch", 2, 512),
    "DALI 512, 1 thread": ("dali", 1, 512),
    "DALI 512, 2 threads": ("dali", 2, 512),
    "OpenCV decode+resize 512, 1 thread": ("opencv", 1, 512),
}


def jpeg_size(data):
    """Width and height, from the frame header."""
    at = 2
    while True:
        marker, length = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7:at + 9], "big"), int.from_bytes(data[at + 5:at + 7], "big")
        at += 2 + length


def make_images(photographs, count, folder):
    """count photographs in folder/images, annotated in folder/boxes.json."""
    sources = sorted(Path(photographs).rglob("*.jpg"))
    if not sources:
        sys.exit(f"{photographs}: no JPEG here")
    images = []
    (folder / "images").mkdir(parents=True)
    for number in range(1, count + 1):
        data = sources[number % len(sources)].read_bytes()
        name = f"{number:06}.jpg"
        (folder / "images" / name).write_bytes(data)
        width, height = jpeg_size(data)
        images.append({"id": number, "file_name": name, "width": width, "height": height})
    boxes = [{"id": image["id"], "image_id": image["id"], "category_id": 1, "bbox": [8, 8, 64, 64],
              "area": 4096, "iscrowd": 0} for image in images]
    (folder / "boxes.json").write_text(json.dumps(
        {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "thing"}]}))


def pack(folder, check):
    """Seconds that coco-pack takes for a fresh set in folder/shards."""
    shutil.rmtree(folder / "shards", ignore_errors=True)
    os.sync()
    start = time.perf_counter()
    subprocess.run([BIN / "coco-pack", "--annotations", folder / "boxes.json", "--images",
                    folder / "images", "--output", folder / "shards", "--check", check,
                    "--log-level", "warning"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def copy_and_sync(folder):
    """Seconds for the same photographs."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    os.sync()
    start = time.perf_counter()
    subprocess.run(["cp", "-r", folder / "images", folder / "copy"], check=True)
    os.sync()
    return time.perf_counter() - start


def measure_peer(arguments, folder):
    """Images per second; None where it does not run, which is said once."""
    name, threads, side = arguments
    done = subprocess.run([sys.executable, HERE / "peers.py", name, folder / "images", str(threads),
                           str(side)], capture_output=True, text=True)
    if done.returncode == 0:
        return float(done.stdout.split()[-1])
    print(f"{name}: left out: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photographs", required=True, help="folder of JPEGs")
    parser.add_argument("--packed", type=int, default=4096, help="photographs to pack and to copy")
    parser.add_argument("--images", type=int, default=256, help="photographs to load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="torch,dali,opencv", help="names, or none")
    options = parser.parse_args()
    wanted = {case: arguments for case, arguments in PEERS.items()
              if arguments[0] in options.peers.split(",")}
    ours, rates = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        many, folder = Path(scratch) / "many", Path(scratch) / "few"
        make_images(options.photographs, options.packed, many)
        make_images(options.photographs, options.images, folder)
        pack(folder, "full")
        for _ in range(options.rounds):
            for case, seconds in (("cp -r and sync", copy_and_sync(many)),
                                  ("coco-pack --check header", pack(many, "header")),
                                  ("coco-pack --check full", pack(many, "full"))):
                rates.setdefault(case, []).append(options.packed / seconds)
            lines = subprocess.run([BIN / "bench_data", "--data", folder / "shards", "--rounds", "1"],
                                   check=True, capture_output=True, text=True).stdout.splitlines()
            for line in map(json.loads, lines):
                ours.setdefault(line["case"], []).append(line)
            for case, arguments in list(wanted.items()):
                rate = measure_peer(arguments, folder)
                if rate is None:
                    del wanted[case]
                else:
                    rates.setdefault(case, []).append(rate)
    for case, lines in ours.items():
        print_case(case, [line["images_per_second"] for line in lines], options)
    for case, values in rates.items():
        print_case(case, values, options)


def print_case(case, values, options):
    print(json.dumps({"bench": "data", "case": case, "images_per_second": round(statistics.median(values), 2),
                      "min": round(min(values), 2), "max": round(max(values), 2),
                      "rounds": options.rounds, "cores": len(os.sched_getaffinity(0))}), flush=True)


if __name__ == "__main__":
    main()
