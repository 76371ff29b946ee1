#!/usr/bin/env python3
"""What a GPU makes of training, beside torchvision on the same one. Each subject takes less than ten
minutes and asks nothing:

    python3 tests/gpu/measure.py step        # images/s and memory of a step, 800 x 800 x 32 in bf16
    python3 tests/gpu/measure.py numbers     # compute-sanitizer on the kernels, the loss in bf16 and fp32

RETINA_BUILD is the build to measure (default build-gpu, which tests/gpu/run.sh makes). This Python needs
torch and torchvision. All that is printed also goes to --log. --device cpu tries the same commands
on small networks and images: its figures mean nothing."""

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
BENCH = HERE.parent / "bench"
BUILD = Path(os.environ.get("RETINA_BUILD", HERE.parents[1] / "build-gpu")).resolve()
BIN = BUILD / "bin"
WARM_UP = 10  # steps of a run that are left out


class Log:
    """Prints, and keeps what was printed."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8") if path else None

    def __call__(self, *words):
        text = " ".join(map(str, words))
        print(text, flush=True)
        if self.file:
            print(text, file=self.file, flush=True)


class Subject:
    def __init__(self, options, log, folder):
        self.options, self.log, self.folder = options, log, folder
        self.on_gpu = options.device == "cuda"
        self.cores = len(os.sched_getaffinity(0))

    def run(self, *command, check=True):
        """Its standard output; the command and what it says go to the log."""
        words = [str(word) for word in command]
        self.log("$", " ".join(words))
        start = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        for text in (done.stdout, done.stderr):
            if text.strip():
                self.log(text.strip()[-4000:])
        self.log(f"exit code {done.returncode}, {time.perf_counter() - start:.1f} s\n")
        if check and done.returncode != 0:
            sys.exit(f"measure.py: error: {words[0]} ended with {done.returncode}")
        return done.stdout

    def train(self, name, *options):
        """Steps of a training, as its metrics have them, without the first ones."""
        output = self.folder / name
        self.run(BIN / "retina-train", "--output", output, "--device", self.options.device, "--precision",
                 "bf16", "--recipe", "none", "--overwrite", "--check-replicas-every", 0, *options)
        lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
        steps = [line for line in lines if "step_ms" in line]
        return steps[min(WARM_UP, len(steps) // 2):]

    def size(self, gpu, cpu):
        return gpu if self.on_gpu else cpu

    def network(self):
        return self.size(["--backbone", "resnet50"], ["--backbone", "resnet18"])

    def sides(self):
        side = self.size(800, 128)
        return ["--min-side", side, "--max-side", side]

    def report(self, name, steps):
        median_ms = statistics.median(step["step_ms"] for step in steps)
        wait_ms = sum(step["data_wait_ms"] for step in steps) / sum(step["step_ms"] for step in steps)
        self.log(f"== {name}: {1e3 * steps[-1]['images'] / median_ms:.1f} images/s, step {median_ms:.1f} ms, "
                 f"data wait {100 * wait_ms:.2f} %, device memory "
                 f"{max(step['device_memory'] for step in steps) / 1e9:.2f} GB\n")
        return steps[-1]["images"] / median_ms

    # Without weights to begin from, a frozen norm bears no large steps.
    FROZEN = ["--norm", "frozen", "--head-norm", "none", "--trainable-layers", 3, "--lr", "1e-6"]

    def synthetic(self, name, *options):
        side = self.size(800, 128)
        return self.train(name, "--synthetic", f"256,size={side}x{side}", *self.sides(),
                          *self.network(), "--images-per-step", self.size(32, 2), "--steps",
                          self.size(80, 6), "--augment", "flip", *options)


def measure_step(subject):
    side = subject.size(800, 128)
    beside = [sys.executable, BENCH / "train/train.py", *subject.network(), "--norm", "frozen", "--size",
              f"{side}x{side}", "--images", subject.size(32, 2), "--device", subject.options.device,
              "--precision", "bf16", "--steps", subject.size(22, 7)]
    subject.report("frozen batch norm", subject.synthetic("frozen", *subject.FROZEN))
    subject.report("the default, GroupNorm heads", subject.synthetic("default"))
    small = subject.size(320, 128)
    subject.report(f"ResNet-18, 4 images of {small} px",
                 subject.train("small", "--synthetic", f"256,size={small}x{small}",
                               "--min-side", small, "--max-side", small, "--backbone", "resnet18",
                               "--images-per-step", 4, "--steps", subject.size(80, 6), "--augment", "flip"))
    os.environ["RETINA_BUILD"] = str(BUILD)
    subject.run(*beside, "--rounds", subject.size(5, 1))
    if subject.on_gpu:
        subject.run(*beside, "--rounds", 1, "--compile")


def measure_numbers(subject):
    if subject.on_gpu:
        sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        for tool in ("memcheck", "racecheck"):
            subject.run(sanitizer, "--tool", tool, "--error-exitcode", 1, BIN / "gpu_test",
                        "--gtest_filter=OpsOnGpu.*", check=False)
    scenes = subject.folder / "scenes"
    subject.run(BIN / "render_scenes", "--output", scenes, "--train", subject.size(640, 16), "--validation", 1)
    subject.run(BIN / "coco-pack", "--annotations", scenes / "annotations/instances_train2017.json",
                "--images", scenes / "images/train2017", "--output", subject.folder / "shards")
    curves = {}
    for name, precision, seed in (("fp32", "fp32", 1), ("fp32, another order", "fp32", 2), ("bf16", "bf16", 1)):
        output = subject.folder / name
        subject.run(BIN / "retina-train", "--train", subject.folder / "shards", "--output", output, "--recipe", "none",
                    "--backbone", "resnet18", *subject.size(["--min-side", 256, "--max-side", 256],
                                              ["--min-side", 64, "--max-side", 64]),
                    "--images-per-step", subject.size(16, 2), "--steps", subject.size(500, 8), "--optimizer",
                    "adamw", "--lr", "4e-4", "--warmup-steps", 50, "--clip-norm", 10, "--seed", seed,
                    "--device", subject.options.device, "--precision", precision)
        lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
        curves[name] = [line["loss"] for line in lines if "step_ms" in line]
    length = len(curves["fp32"])
    for end in range(length // 4, length + 1, length // 4):
        part = {name: statistics.mean(curve[end - length // 4:end]) for name, curve in curves.items()}
        spread = abs(part["fp32, another order"] - part["fp32"]) / part["fp32"]
        other = abs(part["bf16"] - part["fp32"]) / part["fp32"]
        subject.log(f"== loss up to step {end}: fp32 {part['fp32']:.4f}; another order {100 * spread:.1f} % from it, "
                    f"bf16 {100 * other:.1f} %")


SUBJECTS = {"step": measure_step, "numbers": measure_numbers}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subject", choices=list(SUBJECTS))
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--log", type=Path, help="where what is printed goes, too")
    options = parser.parse_args()
    if not (BIN / "retina-train").exists():
        sys.exit(f"measure.py: error: {BIN}: no retina-train there; hint: set RETINA_BUILD, or run tests/gpu/run.sh")
    if (BUILD / "environment").exists():  # of run.sh, with packages that it unpacked
        os.environ.update(line.split("=", 1) for line in (BUILD / "environment").read_text().splitlines())
    log = Log(options.log)
    start = time.perf_counter()
    if options.device == "cuda":
        log(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.strip())
    log(subprocess.run([BIN / "retina-train", "--version"], capture_output=True, text=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as scratch:
        SUBJECTS[options.subject](Subject(options, log, Path(scratch)))
    log(f"measure.py: {options.subject}: {time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
