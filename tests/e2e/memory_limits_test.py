"""What a training says that it needs, and trainings below limits of memory, from what the program needs to
start to more than a training takes: each trains to its end, or ends with one line and exit code 69;
none dies of a signal, none hangs. `RETINA_MEMORY_LIMITS=200` tries that many limits and prints a table."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", "build"))
TRAIN = str(BUILD / "bin/retina-train")
LIMITS = int(os.environ.get("RETINA_MEMORY_LIMITS", "12"))
HANG_S = 400  # many times what a training takes
MIB = 1 << 20
UNITS = {"MiB": MIB, "GiB": 1 << 30}
IMAGES = 32
KINDS = {"data": resource.RLIMIT_DATA, "address space": resource.RLIMIT_AS}
HALVED = "it is repeated, from here on with"


def training(folder, side=128, images=IMAGES, **options):
    """A classifier's, whose activations are large beside its weights; `task` detect: a detector's."""
    words = {"task": "classify", "synthetic": f"{2 * images},size={side}x{side}", "backbone": "resnet18", "norm": "frozen",
             "min-side": side, "max-side": side, "images-per-step": images, "steps": 2, "threads": 1,
             "compute-threads": 1, "device": "cpu", "warmup-steps": 0, "lr": 0.001, "clip-norm": 1, "output": folder}
    words |= {name.replace("_", "-"): value for name, value in options.items()}
    return [word for name, value in words.items() for word in (f"--{name}", str(value))]


def run(command, kind=None, limit=None):
    def below():
        if kind is not None:
            resource.setrlimit(KINDS[kind], (limit, limit))

    done = subprocess.run(command, preexec_fn=below, timeout=HANG_S, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stderr


def steps_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def needed_to_start(kind):
    """The smallest limit, to 8 MiB, below which the program gets as far as its version."""
    low, high = 0, 1 << 15
    while high - low > 8:
        middle = (low + high) // 2
        starts = run([TRAIN, "--version"], kind, middle * MIB)[0] == 0
        low, high = (low, middle) if starts else (middle, high)
    return high * MIB


class MemoryLimits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)

    def check_end(self, code, text, what):
        """One of the two ways in which it may end."""
        self.assertIn(code, (0, 69), f"{what}: {code}\n{text}")
        errors = [line for line in text.splitlines() if ": error: " in line]
        if code == 0:
            self.assertEqual(errors, [], what)
        else:
            self.assertEqual(len(errors), 1, f"{what}\n{text}")
            self.assertRegex("\n".join(errors), "out of memory|cannot start|the system refused", what)

    def check_losses(self, folder, free, what):
        losses = [step["loss"] for step in steps_of(folder)]
        self.assertEqual(len(losses), len(free), what)
        for ours, theirs in zip(losses, free):
            self.assertAlmostEqual(ours / theirs, 1, delta=1e-4, msg=what)

    def test_the_peak_is_near_what_was_told(self):
        for side, images in (128, 4), (256, 2), (192, 8):
            folder = self.path / f"{side}-{images}"
            code, text = run([TRAIN, *training(folder, side, images, task="detect")])
            self.assertEqual(code, 0, text)
            told = re.search(r"a rank needs about ([0-9.]+) (MiB|GiB) of [0-9.]+ \S+ \(", text)
            ratio = float(told[1]) * UNITS[told[2]] / max(step["memory"] for step in steps_of(folder))
            print(f"{side} px, {images} images: told {told[1]} {told[2]}, {ratio:.2f} of the peak", file=sys.stderr)
            self.assertTrue(0.95 <= ratio <= 1.5, ratio)

    def test_every_training_ends_well_or_says_what_it_lacks(self):
        code, text = run([TRAIN, *training(self.path / "free")])
        self.assertEqual(code, 0, text)
        free = [step["loss"] for step in steps_of(self.path / "free")]
        ends = Counter()
        for kind in KINDS:
            start = needed_to_start(kind)
            for number in range(LIMITS // 2):
                limit = start + (number + 1) * 500 * MIB // (LIMITS // 2)
                # Told to take all at once, it finds out in the middle of a step.
                how = ["auto", IMAGES][number % 2]
                folder = self.path / f"{kind}-{number}"
                code, text = run([TRAIN, *training(folder, micro_batch=how)], kind, limit)
                what = f"{kind} {limit // MIB} MiB, --micro-batch {how}"
                halved = text.count(HALVED)
                ends[kind, how, code, halved] += 1
                if LIMITS > 12:
                    print(f"{what}: ends with {code}, halved {halved} times", file=sys.stderr)
                self.check_end(code, text, what)
                if code == 0:
                    self.check_losses(folder, free, what)
        self.assertEqual({code for _, _, code, _ in ends}, {0, 69}, ends)
        self.assertTrue(any(halved > 0 for _, _, _, halved in ends), ends)


if __name__ == "__main__":
    unittest.main()
