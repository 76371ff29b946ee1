#!/usr/bin/env python3
"""Images/s of `retina-train --task classify --synthetic` beside torchvision's ResNet trained by PyTorch
eager on random tensors, in turns.

    python3 tests/bench/classify/speed.py [--backbone resnet50] [--side 224] [--images 8] [--rounds 5]

This Python needs torch and torchvision. Both take SGD steps with momentum and weight decay over 1,000
classes, batch norm and all layers trained; ours also crops and resizes its made-up images. Prints a line of
JSON a round and the medians."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("RETINA_BUILD", HERE.parents[2] / "build")).resolve() / "bin"
CLASSES = 1000
WARM_UP = 2  # steps of a round that are left out


def ours(options):
    """Milliseconds of each step."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [BIN / "retina-train", "--task", "classify", "--synthetic", str(options.images * options.steps),
             "--backbone", options.backbone, "--min-side", str(options.side), "--max-side",
             str(options.side * 8 // 7), "--images-per-step", str(options.images), "--epochs", "1",
             "--output", folder + "/run", "--compute-threads", str(options.threads), "--device", "cpu",
             "--checkpoint-every", "9epochs", "--warmup-steps", "0", "--lr", "0.01"],
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr.strip()[-2000:])
        lines = map(json.loads, Path(folder, "run/metrics.jsonl").read_text().splitlines())
        return [line["step_ms"] for line in lines if "step_ms" in line]


def theirs(options):
    program = f"""
import time, torch, torchvision
torch.set_num_threads({options.threads})
model = torchvision.models.{options.backbone}(num_classes={CLASSES}).train()
images = torch.randn({options.images}, 3, {options.side}, {options.side})
labels = torch.randint({CLASSES}, ({options.images},))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
for _ in range({options.steps}):
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    loss.item()
    print((time.perf_counter() - begin) * 1e3)
"""
    return list(map(float, subprocess.run([sys.executable, "-c", program], check=True,
                                          capture_output=True, text=True).stdout.split()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=8, help="of a step")
    parser.add_argument("--steps", type=int, default=8, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    rates = {"ours": [], "torchvision": []}
    for number in range(options.rounds):
        for name, measure in (("ours", ours), ("torchvision", theirs)):
            step_ms = statistics.median(measure(options)[WARM_UP:])
            rates[name].append(options.images / step_ms * 1e3)
            print(json.dumps({"bench": "classify speed", "who": name, "round": number + 1,
                              "images_per_second": round(rates[name][-1], 2)}), flush=True)
    mine, other = (statistics.median(rates[name]) for name in ("ours", "torchvision"))
    print(f"{options.backbone}, {options.side} px, {options.images} images a step, {options.threads} threads, "
          f"medians of {options.rounds} rounds: {mine:.2f} images/s, torchvision eager {other:.2f}: "
          f"{mine / other:.3f} x")


if __name__ == "__main__":
    main()
