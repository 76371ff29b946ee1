#!/usr/bin/env python3
"""How many images a core packs: coco-pack beside litdata's optimize and mosaicml-streaming's MDSWriter.

    python3 tests/bench/data/packing.py --photographs DIR [--packed 4096] [--rounds 5]

Packs the JPEGs of DIR, each under many ids, with their boxes: the files' bytes as they are, on one core and with
one worker, each program with its defaults, in turn. The peers are those that are installed for this Python; their
imports are not counted. Prints a line of JSON a case: the median of the rounds, and how many times as fast coco-pack
is, by the clock and by the core's own time, which a slow disk does not count in.

They do different things: both peers copy bytes. coco-pack also decodes every image (with --check header it reads the
header alone), compares its size with the annotations', hashes every record, reads the shards again and waits until
the disk has them.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data import BIN, make_images


def samples(folder):
    """(path, boxes) of every image."""
    import numpy
    content = json.loads((folder / "boxes.json").read_text())
    boxes = {}
    for box in content["annotations"]:
        boxes.setdefault(box["image_id"], []).append([*box["bbox"], box["category_id"]])
    return [(str(folder / "images" / image["file_name"]),
             numpy.array(boxes.get(image["id"], []), numpy.float32)) for image in content["images"]]


def sample(number):
    path, boxes = sample.all[number]
    return {"id": number, "image": Path(path).read_bytes(), "boxes": boxes}


def litdata_optimize(output):
    from litdata import optimize
    return lambda: optimize(sample, list(range(len(sample.all))), str(output), chunk_bytes="64MB",
                            num_workers=1, start_method="fork", verbose=False)


def mds_writer(output):
    from streaming import MDSWriter

    def write():
        columns = {"id": "int", "image": "bytes", "boxes": "ndarray:float32"}
        with MDSWriter(out=str(output), columns=columns) as writer:
            for number in range(len(sample.all)):
                writer.write(sample(number))
    return write


PEERS = {"litdata optimize": litdata_optimize, "MDSWriter": mds_writer}


def core_seconds():
    return sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def timed(work):
    """(seconds, seconds of the core) of a call."""
    start, start_core = time.perf_counter(), core_seconds()
    work()
    return time.perf_counter() - start, core_seconds() - start_core


def fresh(folder):
    shutil.rmtree(folder / "shards", ignore_errors=True)
    os.sync()
    return folder / "shards"


def coco_pack(folder, check):
    output = fresh(folder)
    return timed(lambda: subprocess.run(
        [BIN / "coco-pack", "--annotations", folder / "boxes.json", "--images", folder / "images",
         "--output", output, "--check", check, "--threads", "1", "--log-level", "error"], check=True,
        stdout=subprocess.DEVNULL))


def peer(folder, name):
    """As coco_pack(), in a process of its own; None where it does not run, which is said."""
    fresh(folder)
    done = subprocess.run([sys.executable, __file__, "--peer", name, "--photographs", folder],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return tuple(map(float, done.stdout.split()[-2:]))
    print(f"{name}: left out: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
    return None


def cpu_kind():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True, help="folder of JPEGs")
    parser.add_argument("--packed", type=int, default=4096, help="photographs to pack")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        sample.all = samples(options.photographs)
        print(*timed(PEERS[options.peer](options.photographs / "shards")))
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # and of every process that this one starts
    cases = {f"coco-pack --check {check}": lambda folder, check=check: coco_pack(folder, check)
             for check in ("full", "header")}
    cases |= {name: lambda folder, name=name: peer(folder, name) for name in PEERS}
    rates = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_images(options.photographs, options.packed, folder)
        for _ in range(options.rounds):
            for case, measure in list(cases.items()):
                seconds = measure(folder)
                if seconds is None:
                    del cases[case]
                else:
                    rates.setdefault(case, []).append([options.packed / value for value in seconds])
    middle = {case: [statistics.median(values) for values in zip(*rounds)] for case, rounds in rates.items()}
    for case, (rate, core_rate) in middle.items():
        ratios = {}
        if case in PEERS:
            ratios = {ours: [round(value / other, 2) for value, other in zip(middle[ours], middle[case])]
                      for ours in middle if ours not in PEERS}
        print(json.dumps({"bench": "packing", "case": case, "images_per_second": round(rate, 1),
                          "images_per_core_second": round(core_rate, 1), "ratios": ratios,
                          "rounds": options.rounds, "cpu": cpu_kind()}))


if __name__ == "__main__":
    main()
