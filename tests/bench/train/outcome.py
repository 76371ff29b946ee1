#!/usr/bin/env python3
"""AP, seconds and memory of retina-train beside torchvision's trainer: same images, steps, batch, mirror, learning
rates and clipping, from scratch; and of retina-train's own variants of it.

    python3 tests/bench/train/outcome.py --set NAME=COCO_FOLDER [--set ...] [--seeds 3] [--steps 400] [--images 4]
        [--min-side 128] [--max-side 160] [--backbone resnet18] [--fpn-channels 256] [--head-convs 4]
        [--run NAME ...] [--output DIR]

A folder is in COCO's layout, as render_scenes writes it: annotations/instances_{train,val}2017.json, images/. All
results are scored by retina-eval. The two trainers take turns, so that a busy machine costs both. Prints a line of JSON a
run, then a table: mean AP and its range over the seeds, mean seconds, memory."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("RETINA_BUILD", HERE.parents[2] / "build")).resolve()
# What torchvision's trainer has, in options (trainer_peer.py).
EQUAL = ["--recipe", "none", "--optimizer", "sgd,momentum=0.9", "--lr", "0.01,scaling=none", "--weight-decay", 1e-4,
         "--lr-schedule", "cosine", "--warmup-steps", 100, "--clip-norm", 10,
         "--head-norm", "none", "--p6", "p5", "--shuffle", "global"]
VARIANTS = {"torchvision": None, "equal": ["--box-loss", "l1"], "giou": ["--box-loss", "giou"],
            "quality-focal": ["--box-loss", "l1", "--class-loss", "quality-focal"],
            "varifocal": ["--box-loss", "l1", "--class-loss", "varifocal"],
            "atss": ["--box-loss", "l1", "--assigner", "atss"],
            "giou, quality-focal": ["--box-loss", "giou", "--class-loss", "quality-focal"],
            "giou x 2, quality-focal": ["--box-loss", "giou,weight=2", "--class-loss", "quality-focal"],
            "atss, giou x 2, quality-focal": ["--assigner", "atss", "--box-loss", "giou,weight=2",
                                              "--class-loss", "quality-focal"]}


def run(*command):
    """Its output and seconds."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {err.strip()[-2000:]}")
    return out, time.monotonic() - begin


def pack(data, folder):
    for split in ("train", "val"):
        run(BUILD / "bin/coco-pack", "--annotations", data / f"annotations/instances_{split}2017.json", "--images",
            data / f"images/{split}2017", "--output", folder / split)


def network(options):
    return [word for name in ("backbone", "fpn_channels", "head_convs", "min_side", "max_side", "compute_threads")
            for word in (f"--{name.replace('_', '-')}", getattr(options, name)) if getattr(options, name)]


def ours(options, data, folder, name, seed):
    output = folder / f"{name.replace(', ', '-').replace(' ', '')}-{seed}"
    begin = time.monotonic()
    run(BUILD / "bin/retina-train", "--train", folder / "train", "--validation", folder / "val", "--output", output, *EQUAL,
        *network(options), "--steps", options.steps, "--validate-every", 0, "--checkpoint-every",
        f"{options.steps}steps", "--images-per-step", options.images, "--seed", seed, *VARIANTS[name])
    seconds = time.monotonic() - begin
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    ap = next(line["validation"] for line in reversed(lines) if "validation" in line)
    return {"AP": ap["AP"], "AP50": ap["AP50"], "seconds": seconds,
            "memory_mib": max(line.get("memory", 0) for line in lines) >> 20}


def theirs(options, data, folder, name, seed):
    results = folder / f"torchvision-{seed}.json"
    out, seconds = run(sys.executable, HERE / "trainer_peer.py", "--data", data, "--results", results, *network(options),
                       "--images", options.images, "--steps", options.steps, "--seed", seed)
    evaluation = folder / f"torchvision-{seed}"
    run(BUILD / "bin/retina-eval", "--detections", results, "--annotations", data / "annotations/instances_val2017.json",
        "--output", evaluation, "--overwrite")
    metrics = json.loads((evaluation / "metrics.json").read_text())
    return {"AP": metrics["AP"], "AP50": metrics["AP50"], "seconds": seconds,
            "memory_mib": json.loads(out.splitlines()[-1])["memory_mib"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", action="append", required=True, dest="sets", metavar="NAME=FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--images", type=int, default=4, help="of a step")
    parser.add_argument("--min-side", type=int, default=128)
    parser.add_argument("--max-side", type=int, default=160)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--fpn-channels", type=int, default=256)
    parser.add_argument("--head-convs", type=int, default=4)
    parser.add_argument("--compute-threads", type=int, help="of both, besides loading; without it, as many as there are cores")
    parser.add_argument("--run", action="append", choices=VARIANTS, dest="runs", help="several times; without it, all")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep the runs here [a temporary folder]")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        for set_name, data in (one.split("=", 1) for one in options.sets):
            folder = (options.output or Path(scratch)) / set_name
            pack(Path(data), folder)
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                for name in options.runs or VARIANTS:
                    measure = theirs if name == "torchvision" else ours
                    row = measure(options, Path(data), folder, name, seed)
                    rows.setdefault((set_name, name), []).append(row)
                    print(json.dumps({"bench": "outcome", "set": set_name, "run": name, "seed": seed, **row}), flush=True)
    print(f"{'set':<12}{'run':<36}{'AP':>7}{'from':>7}{'to':>7}{'AP50':>7}{'seconds':>9}{'MiB':>7}")
    for (set_name, name), runs in rows.items():
        mean = {key: statistics.mean(row[key] for row in runs) for key in runs[0]}
        aps = [row["AP"] for row in runs]
        print(f"{set_name:<12}{name:<36}{mean['AP']:>7.3f}{min(aps):>7.3f}{max(aps):>7.3f}{mean['AP50']:>7.3f}"
              f"{mean['seconds']:>9.0f}{mean['memory_mib']:>7.0f}")


if __name__ == "__main__":
    main()
