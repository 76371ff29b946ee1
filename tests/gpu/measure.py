#!/usr/bin/env python3
"""What a GPU makes of training and detection, beside torchvision on the same one. Each subject takes
less than ten minutes and asks nothing:

    python3 tests/gpu/measure.py step        # images/s and memory of a step, 800 x 800 x 32 in bf16
    python3 tests/gpu/measure.py data        # the same from JPEGs with augmentation; evaluation; one image
    python3 tests/gpu/measure.py numbers     # compute-sanitizer on the kernels, the loss in bf16 and fp32
    python3 tests/gpu/measure.py training    # three minutes of training each, AP of both

RETINA_BUILD is the build to measure (default build-gpu, which tests/gpu/run.sh makes). This Python needs
torch, torchvision and Pillow. All that is printed also goes to --log. --device cpu tries the same commands
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

    def tell(self, what, steps):
        median_ms = statistics.median(step["step_ms"] for step in steps)
        wait_ms = sum(step["data_wait_ms"] for step in steps) / sum(step["step_ms"] for step in steps)
        self.log(f"== {what}: {1e3 * steps[-1]['images'] / median_ms:.1f} images/s, step {median_ms:.1f} ms, "
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
    subject.tell("frozen batch norm", subject.synthetic("frozen", *subject.FROZEN))
    subject.tell("the default, GroupNorm heads", subject.synthetic("default"))
    small = subject.size(320, 128)
    subject.tell(f"ResNet-18, 4 images of {small} px",
                 subject.train("small", "--synthetic", f"256,size={small}x{small}",
                               "--min-side", small, "--max-side", small, "--backbone", "resnet18",
                               "--images-per-step", 4, "--steps", subject.size(80, 6), "--augment", "flip"))
    os.environ["RETINA_BUILD"] = str(BUILD)
    subject.run(*beside, "--rounds", subject.size(5, 1))
    if subject.on_gpu:
        subject.run(*beside, "--rounds", 1, "--compile")


def make_photographs(folder, count):
    """As large as COCO's, and as hard to decode."""
    from PIL import Image
    folder.mkdir()
    for number in range(count):
        coarse = Image.frombytes("RGB", (40, 30), os.urandom(3600)).resize((640, 480), Image.Resampling.BICUBIC)
        fine = Image.frombytes("RGB", (320, 240), os.urandom(230400)).resize((640, 480), Image.Resampling.BICUBIC)
        Image.blend(coarse, fine, 0.15).save(folder / f"{number:03}.jpg", quality=92)


def pack(subject, photographs, name, count):
    """Shards of `count` images with eight boxes each."""
    files = sorted(photographs.iterdir())
    images = [{"id": i + 1, "file_name": files[i % len(files)].name, "width": 640, "height": 480}
              for i in range(count)]
    boxes = [{"id": 8 * i + k + 1, "image_id": i + 1, "category_id": 1 + (i + k) % 80, "iscrowd": 0,
              "bbox": [30 + 60 * k, 40 + 20 * k, 50 + 15 * k, 40 + 12 * k],
              "area": (50 + 15 * k) * (40 + 12 * k)} for i in range(count) for k in range(8)]
    annotations = subject.folder / f"{name}.json"
    annotations.write_text(json.dumps(
        {"images": images, "annotations": boxes,
         "categories": [{"id": i, "name": f"class {i}"} for i in range(1, 81)]}))
    subject.run(BIN / "coco-pack", "--annotations", annotations, "--images", photographs, "--output",
                subject.folder / name)
    return subject.folder / name


def measure_data(subject):
    photographs = subject.folder / "photographs"
    make_photographs(photographs, subject.size(256, 8))
    train = pack(subject, photographs, "train", subject.size(4096, 16))
    size = subject.size(["--min-side", 800, "--max-side", 1333], ["--min-side", 128, "--max-side", 192])
    steps = [*subject.network(), *subject.FROZEN, *size, "--images-per-step", subject.size(32, 2), "--steps",
             subject.size(80, 6)]
    without = subject.tell("without data", subject.train(
        "synthetic", "--synthetic", "256,size=640x480", *steps))
    light = subject.tell("JPEGs, --augment light", subject.train(
        "light", "--train", train, "--augment", "light", *steps))
    subject.log(f"== with data and augmentation: {100 * light / without:.1f} % of the speed without\n")

    validation = pack(subject, photographs, "validation", subject.size(5000, 20))
    start = time.perf_counter()
    subject.run(BIN / "retina-eval", "--model", subject.folder / "light", "--data", validation, "--output",
                subject.folder / "evaluation", "--device", subject.options.device, "--precision", "bf16")
    subject.log(f"== evaluation, whole command: {time.perf_counter() - start:.1f} s\n")
    os.environ["RETINA_BUILD"] = str(BUILD)
    subject.run(sys.executable, BENCH / "infer/infer.py", "--photographs", photographs, *subject.network(),
                "--sides", *subject.size([800, 1280], [128, 192]), "--device", subject.options.device,
                "--precision", "bf16", "--threads", min(subject.cores, 16), "--images", subject.size(256, 4),
                "--rounds", subject.size(3, 1))


def measure_numbers(subject):
    if subject.on_gpu:
        sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        for tool in ("memcheck", "racecheck"):
            subject.run(sanitizer, "--tool", tool, "--error-exitcode", 1, BIN / "gpu_test",
                        "--gtest_filter=*OpsOnGpu*:DropoutOnGpu*:ImagesOnGpu*:*NormOnGpu.Hides*:*NormOnGpu.Loses*", check=False)
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


def measure_training(subject):
    scenes, shards = subject.folder / "scenes", subject.folder / "shards"
    subject.run(BIN / "render_scenes", "--output", scenes, "--classes", 80, "--train", subject.size(4000, 16),
                "--validation", subject.size(400, 4), "--intact")
    for split in ("train", "val"):
        subject.run(BIN / "coco-pack", "--annotations", scenes / f"annotations/instances_{split}2017.json",
                    "--images", scenes / f"images/{split}2017", "--output", shards / split)
    seconds = subject.size(180, 6)
    sides = ["--min-side", subject.size(320, 64), "--max-side", subject.size(320, 64)]
    common = ["--train", shards / "train", *subject.network(), *sides, "--images-per-step", 16, "--optimizer",
              "adamw", "--lr", "4e-4", "--lr-schedule", "cosine", "--warmup-steps", 100, "--clip-norm", 10,
              "--head-norm", "none", "--augment", "flip"]
    probe = subject.train("probe", *common, "--steps", subject.size(40, 3))
    steps = int(1e3 * seconds / statistics.median(step["step_ms"] for step in probe))
    start = time.perf_counter()
    subject.tell(f"{steps} steps", subject.train("ours", *common, "--steps", max(steps, 2)))
    subject.log(f"== ours: {time.perf_counter() - start:.0f} s with start and checkpoint\n")
    subject.run(BIN / "retina-eval", "--model", subject.folder / "ours", "--data", shards / "val", "--output",
                subject.folder / "evaluation", "--device", subject.options.device)
    results = subject.folder / "results.json"
    subject.run(sys.executable, BENCH / "train/trainer_peer.py", "--data", scenes, "--results", results,
                *subject.network(), *sides, "--images", 16, "--seconds", seconds, "--threads",
                min(subject.cores, 16), "--device", subject.options.device)
    subject.run(BIN / "retina-eval", "--detections", results, "--annotations",
                scenes / "annotations/instances_val2017.json", "--output", subject.folder / "peer-evaluation")
    for who, folder in (("ours", "evaluation"), ("torchvision's", "peer-evaluation")):
        stats = json.loads((subject.folder / folder / "metrics.json").read_text())["stats"]
        subject.log(f"== AP of {who}: {stats[0]:.4f}, AP50 {stats[1]:.4f}")


SUBJECTS = {"step": measure_step, "data": measure_data, "numbers": measure_numbers, "training": measure_training}


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
