#!/usr/bin/env python3
"""JPEG bytes to boxes: this project's network beside torchvision's, the same weights and photographs, in
turns.

    python3 tests/bench/infer/infer.py --photographs DIR [--backbone resnet50] [--sides 512 683] [--rounds 5]

This Python needs torch, torchvision and Pillow. The photographs are taken again and again until there
are enough. Prints a line of JSON a round and a table of medians."""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("RETINA_BUILD", HERE.parents[2] / "build")).resolve() / "bin"
CLASSES = 80


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def make_data(folder, photographs, count):
    """JPEGs in folder/jpeg, shards in folder/shards."""
    from PIL import Image
    (folder / "jpeg").mkdir()
    (folder / "raw").mkdir()
    sources = sorted(path for path in photographs.rglob("*.jpg"))
    if not sources:
        sys.exit(f"{photographs}: holds no .jpg files")
    images = []
    for number, source in enumerate(itertools.islice(itertools.cycle(sources), count), 1):
        name = f"{number:06}.jpg"
        shutil.copyfile(source, folder / "jpeg" / name)
        width, height = Image.open(source).size
        images.append({"id": number, "file_name": name, "width": width, "height": height})
    categories = [{"id": i, "name": f"class {i}"} for i in range(1, CLASSES + 1)]
    (folder / "boxes.json").write_text(
        json.dumps({"images": images, "annotations": [], "categories": categories}))
    run(BIN / "coco-pack", "--annotations", folder / "boxes.json", "--images", folder / "jpeg",
        "--output", folder / "shards")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--sides", type=int, nargs=2, default=[512, 683], metavar=("MIN", "MAX"))
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--images-per-batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"],
                        help="bf16: beside torchvision's autocast in channels_last")
    options = parser.parse_args()
    amp = ["--amp"] if options.precision == "bf16" else []
    sides = ["--min-side", options.sides[0], "--max-side", options.sides[1]]
    results = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_data(folder, options.photographs, options.images)
        run(sys.executable, HERE.parent / "train" / "peer.py", "--data", folder, "--weights",
            folder / "first.pth", "--backbone", options.backbone, *sides, "--write-weights")
        run(BIN / "retina-convert", "--import", folder / "first.pth", "--output", folder / "first.pt",
            "--categories", folder / "boxes.json", *sides)
        for number in range(options.rounds):
            for name, line in (
                    ("ours", run(BIN / "bench_infer", "--checkpoint", folder / "first.pt", "--shards",
                                 folder / "shards", "--images-per-batch", options.images_per_batch,
                                 "--threads", options.threads, "--decode-threads", options.threads,
                                 "--device", options.device, "--precision", options.precision)),
                    ("theirs", run(sys.executable, HERE / "peer.py", "--photographs", folder / "jpeg",
                                   "--weights", folder / "first.pth", "--backbone", options.backbone,
                                   *sides, "--classes", CLASSES, "--images-per-batch",
                                   options.images_per_batch, "--threads", options.threads,
                                   "--device", options.device, *amp))):
                results[name].append(json.loads(line))
                print(json.dumps({"who": name, "round": number + 1} | results[name][-1]), flush=True)
    print(f"{options.backbone}, {options.sides[0]}/{options.sides[1]} px, {options.precision}, "
          f"{options.device}, {options.threads} threads: medians of {options.rounds} rounds")
    print(f"{'':<22}{'ours':>12}{'torchvision':>14}{'ratio':>8}")
    for key in ("ms_per_image", "images_per_second", "memory_bytes"):
        mine, other = (statistics.median(one[key] for one in results[who]) for who in ("ours", "theirs"))
        print(f"{key:<22}{mine:>12.1f}{other:>14.1f}{mine / other:>8.3f}")


if __name__ == "__main__":
    main()
