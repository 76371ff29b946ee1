#!/usr/bin/env python3
"""Accuracy of --recipe cifar10-keras beside the same training by PyTorch (peer.py), on the files of CIFAR-10's
binary version.

    python3 tests/bench/classify/classify.py [--data FOLDER] [--epochs 25] [--seeds 1,2] [--ranks 1,2,4]

This Python needs torch. Without --data on the images that render_classes makes. Ours learns on each
number of ranks (32 images each, the rate times the ranks), PyTorch's in one process. Prints a line of JSON a
training and a table of the last epoch: top-1 accuracy and loss on the validation set, the standard error that
the number of its images leaves, seconds."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("RETINA_BUILD", HERE.parents[2] / "build")).resolve() / "bin"
# More ranks than cores, as root, in a container.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=os.environ | MPI)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def ours(folder, options, seed, ranks):
    """(top-1 accuracy, loss) after each epoch."""
    output = folder / f"run-{seed}-{ranks}"
    launch = ["mpirun", "-np", ranks] if ranks > 1 else []
    run(*launch, BIN / "retina-train", "--train", folder / "shards/train", "--validation",
        folder / "shards/val", "--output", output, "--recipe", "cifar10-keras", "--epochs",
        options.epochs, "--seed", seed, "--threads", 1, "--compute-threads", 1, "--device", "cpu",
        "--checkpoint-every", f"{options.epochs}epochs")
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [(line["validation"]["top1"], line["validation"]["loss"])
            for line in lines if "validation" in line]


def theirs(data, options, seed):
    lines = list(map(json.loads, run(sys.executable, HERE / "peer.py", "--data", data, "--epochs",
                                     options.epochs, "--seed", seed).splitlines()))
    return [(line["validation_top1"], line["validation_loss"]) for line in lines if "epoch" in line]


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seeds", type=numbers, default=[1, 2])
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4])
    options = parser.parse_args()
    table = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        data = options.data
        if data is None:
            data = folder / "classes"
            run(BIN / "render_classes", "--output", data)
        test = data / "test_batch.bin"
        for images, split in ((data, "train"), (test, "val")):
            run(BIN / "coco-pack", "--format", "cifar10", "--images", images, "--output",
                folder / "shards" / split)
        for seed in options.seeds:
            trainings = [("PyTorch", 1, lambda: theirs(data, options, seed))]
            trainings += [("ours", ranks, lambda ranks=ranks: ours(folder, options, seed, ranks))
                          for ranks in options.ranks]
            for who, ranks, train in trainings:
                start = time.monotonic()
                epochs = train()
                line = {"bench": "classify", "who": who, "ranks": ranks, "seed": seed,
                        "seconds": round(time.monotonic() - start, 1),
                        "top1": [round(top1, 4) for top1, _ in epochs],
                        "loss": [round(loss, 4) for _, loss in epochs]}
                print(json.dumps(line), flush=True)
                table.append(line)
        count = test.stat().st_size // 3073
    print(f"after {options.epochs} epochs, {count} validation images")
    print(f"{'':<10}{'ranks':>6}{'seed':>6}{'top-1 %':>16}{'loss':>8}{'seconds':>9}")
    for line in table:
        top1 = line["top1"][-1]
        error = math.sqrt(top1 * (1 - top1) / count)
        print(f"{line['who']:<10}{line['ranks']:>6}{line['seed']:>6}"
              f"{100 * top1:>9.1f} ±{100 * error:>4.1f} {line['loss'][-1]:>8.3f}{line['seconds']:>9.0f}")


if __name__ == "__main__":
    main()
