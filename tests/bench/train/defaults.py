#!/usr/bin/env python3
"""AP of retina-train's defaults beside --recipe none, which leaves the data out, and a grid of rates and lengths.

    python3 tests/bench/train/defaults.py --set NAME=TRAIN_SHARDS:VALIDATION_SHARDS [--set ...] [--seeds 3]
        [--grid] [--output DIR] [-- OPTIONS FOR EVERY RUN, e.g. --backbone resnet18 --min-side 160 --max-side 256]

The grid multiplies the default learning rate by 1/4, 1 and 4 and the default length by 1/2, 1 and 2; with it, give
no length among the options. Runs that --output has already are continued or kept, so that a stopped comparison
goes on when the command is repeated. Prints a line of JSON a run, then a table: median and spread of the last
validation's AP over the seeds, steps, seconds."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", Path(__file__).resolve().parents[3] / "build")).resolve()
FACTORS_OF_RATE = (0.25, 1, 4)
FACTORS_OF_LENGTH = (0.5, 1, 2)


def train(data, output, options):
    """A run's config.json, validations and the seconds of this call."""
    shards = dict(zip(("--train", "--validation"), data.split(":", 1)))
    words = [BUILD / "bin/retina-train", *(word for pair in shards.items() for word in pair), "--output", output, *options]
    start = time.monotonic()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return {"config": json.loads((output / "config.json").read_text()),
            "aps": [line["validation"]["AP"] for line in lines if "validation" in line],
            "seconds": time.monotonic() - start}


def configurations(default, grid):
    """Name -> options, from the config.json of a default run."""
    yield "before", ["--recipe", "none"]
    if not grid:
        return
    options, rate, steps = default["options"], default["effective_lr"], default["schedule"]["total_steps"]
    for rate_factor in FACTORS_OF_RATE:
        for factor in FACTORS_OF_LENGTH:
            # Optimizer and rate belong together: who gives a rate names its optimizer.
            yield f"lr x {rate_factor:g}, length x {factor:g}", [
                "--recipe", options["recipe"], "--optimizer", options["optimizer"], "--lr-scaling", "none",
                "--lr", f"{rate * rate_factor:g}", "--steps", max(1, round(steps * factor))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", action="append", required=True, dest="sets", metavar="NAME=TRAIN:VALIDATION")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--grid", action="store_true", help="also nine learning rates and lengths")
    parser.add_argument("--output", metavar="DIR", help="keep the runs here [a temporary folder]")
    parser.add_argument("options", nargs="*", help="for every run, after --")
    arguments = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.output or scratch)

        def measure(set_name, data, name, seed, options):
            output = folder / set_name / name.replace(" ", "_").replace(",", "") / str(seed)
            result = train(data, output, [*arguments.options, "--seed", seed, *options])
            steps = result["config"]["schedule"]["total_steps"]
            rows.setdefault((set_name, name), []).append((result["aps"][-1], steps, result["seconds"]))
            print(json.dumps({"bench": "defaults", "set": set_name, "run": name, "seed": seed, "steps": steps,
                              "recipe": result["config"]["options"]["recipe"], "AP": result["aps"][-1],
                              "best AP": max(result["aps"]), "seconds": round(result["seconds"], 1)}), flush=True)
            return result["config"]

        for set_name, data in (one.split("=", 1) for one in arguments.sets):
            for seed in range(1, arguments.seeds + 1):
                default = measure(set_name, data, "default", seed, [])
                for name, options in configurations(default, arguments.grid):
                    measure(set_name, data, name, seed, options)
    print(f"{'set':<12}{'run':<26}{'AP':>8}{'from':>8}{'to':>8}{'steps':>8}{'seconds':>9}")
    for (set_name, name), runs in rows.items():
        aps, steps, seconds = zip(*runs)
        print(f"{set_name:<12}{name:<26}{statistics.median(aps):>8.3f}{min(aps):>8.3f}{max(aps):>8.3f}"
              f"{steps[0]:>8}{statistics.median(seconds):>9.0f}")


if __name__ == "__main__":
    main()
