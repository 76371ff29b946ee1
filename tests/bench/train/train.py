#!/usr/bin/env python3
"""A step of retina-train beside one of torchvision's RetinaNet: the same network, first weights, images and
boxes, in turns.

    python3 tests/bench/train/train.py [--backbone resnet50] [--norm frozen] [--size 512x512] [--images 2]

This Python needs torch (the release of the build's LibTorch), torchvision and Pillow. Packs images without
loss, imports torchvision's first weights, then prints a line of JSON a round and a table: the median step of
all rounds and of each part, ours over theirs, the most memory, and how far the losses of the same steps differ.
On a GPU, --device cuda, with --precision bf16 beside torchvision's autocast in channels_last, and with --compile
beside that under torch.compile."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("RETINA_BUILD", HERE.parents[2] / "build")).resolve() / "bin"
CLASSES = 80
LAYERS = {"batch": 5, "frozen": 3}  # of the backbone that are trained
WARM_UP = 2  # steps of each round that are left out
PARTS = ["data_ms", "forward_ms", "loss_ms", "backward_ms", "update_ms"]


def make_data(folder, width, height, count):
    """PNGs in folder/png, their bytes in folder/raw, boxes in folder/boxes.json, shards in folder/shards."""
    from PIL import Image
    draw = random.Random(1)
    images, boxes = [], []
    for name in ("png", "raw"):
        (folder / name).mkdir()
    for number in range(1, count + 1):
        small = Image.frombytes("RGB", (16, 16), draw.randbytes(16 * 16 * 3))
        image = small.resize((width, height), Image.Resampling.BICUBIC)
        image.save(folder / "png" / f"{number}.png")
        (folder / "raw" / f"{number}.png").write_bytes(image.tobytes())
        images.append({"id": number, "file_name": f"{number}.png", "width": width, "height": height})
        for _ in range(8):
            w, h = draw.randint(width // 20, width // 2), draw.randint(height // 20, height // 2)
            boxes.append({"id": len(boxes) + 1, "image_id": number, "iscrowd": 0, "area": w * h,
                          "category_id": draw.randint(1, CLASSES),
                          "bbox": [draw.randint(0, width - w), draw.randint(0, height - h), w, h]})
    categories = [{"id": i, "name": f"class {i}"} for i in range(1, CLASSES + 1)]
    (folder / "boxes.json").write_text(
        json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    run(BIN / "coco-pack", "--annotations", folder / "boxes.json", "--images", folder / "png",
        "--output", folder / "shards", "--convert", "--encoding", "raw")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def ours(folder, options, number):
    """Steps of retina-train, as its metrics have them."""
    output = folder / f"run{number}"
    run(BIN / "retina-train", "--train", folder / "shards", "--output", output, "--recipe", "none",
        "--init", folder / "first.pt", "--backbone", options.backbone, "--head-norm", "none", "--norm",
        options.norm, "--trainable-layers", LAYERS[options.norm], "--min-side", options.sides[0], "--max-side", options.sides[1],
        "--images-per-step", options.images, "--epochs", options.steps, "--lr", options.lr,
        "--lr-schedule", "constant", "--warmup-steps", 0, "--augment", "none", "--compute-threads",
        options.threads, "--device", options.device, "--precision", options.precision,
        "--checkpoint-every", f"{options.steps}epoch")
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [line | {"data_ms": line["data_wait_ms"] + line["upload_ms"]} for line in lines
            if "step_ms" in line]


def theirs(folder, options, *more):
    """Steps of peer.py."""
    return list(map(json.loads, run(
        sys.executable, HERE / "peer.py", "--data", folder, "--weights", folder / "first.pth",
        "--backbone", options.backbone, "--norm", options.norm, "--min-side", options.sides[0],
        "--max-side", options.sides[1], "--images", options.images, "--steps", options.steps, "--threads", options.threads, "--lr",
        options.lr, "--device", options.device, *more).splitlines()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--norm", default="frozen", choices=list(LAYERS),
                        help="of the backbone; frozen: with its first two stages, as torchvision's v1 "
                             "recipe has it; batch: as training from scratch needs it")
    parser.add_argument("--size", default="512x512", metavar="WxH")
    parser.add_argument("--images", type=int, default=2, help="of a step")
    parser.add_argument("--steps", type=int, default=7, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.steps <= WARM_UP:
        parser.error(f"--steps: too few (got {options.steps}, want {WARM_UP + 1})")
    width, height = map(int, options.size.split("x"))
    options.sides = min(width, height), max(width, height)
    more = (["--amp"] if options.precision == "bf16" else []) + (["--compile"] if options.compile else [])
    runs = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_data(folder, width, height, options.images)
        theirs(folder, options, "--write-weights")
        run(BIN / "retina-convert", "--import", folder / "first.pth", "--output", folder / "first.pt",
            "--categories", folder / "boxes.json")
        for number in range(options.rounds):
            for name, steps in (("ours", ours(folder, options, number)),
                                ("theirs", theirs(folder, options, *more))):
                runs[name].append(steps)
                print(json.dumps({"bench": "train", "who": name, "round": number + 1} | medians([steps])),
                      flush=True)
    mine, other = medians(runs["ours"]), medians(runs["theirs"])
    print(f"{options.backbone}, norm {options.norm}, {options.size} x {options.images}, {options.precision}, {options.device}, "
          f"{options.threads} threads: medians of {options.rounds} rounds")
    print(f"{'':<14}{'ours':>12}{'torchvision':>14}{'ratio':>8}")
    for one in (mine, other):
        one["images/s"] = 1e3 * options.images / one["step_ms"]
    for key in ("images/s", "step_ms", *PARTS, "memory", "device_memory"):
        if other.get(key):
            print(f"{key:<14}{mine[key]:>12.1f}{other[key]:>14.1f}{mine[key] / other[key]:>8.3f}")
    pairs = [(a["loss"], b["loss"]) for a, b in zip(runs["ours"][0], runs["theirs"][0])]
    print(f"largest relative difference of the losses of {len(pairs)} steps: "
          f"{max(abs(a - b) / b for a, b in pairs):.2g}")


def medians(rounds):
    """Of all steps but the first ones: milliseconds; the most memory in MiB."""
    steps = [step for one in rounds for step in one[WARM_UP:]]
    result = {key: round(statistics.median(step[key] for step in steps), 2) for key in ("step_ms", *PARTS)}
    for key in ("memory", "device_memory"):
        result[key] = round(max(step[key] for step in steps) / 2**20, 1)
    return result


if __name__ == "__main__":
    main()
