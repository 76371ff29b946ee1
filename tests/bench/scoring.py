#!/usr/bin/env python3
"""Scoring results files beside pycocotools and faster-coco-eval: JSON in, 12 numbers out.

    python3 tests/bench/scoring.py [--detections 300000] [--repeats 5] [--threads 1] [--keep DIR]

Makes a set of COCO val2017's size (5,000 images, 80 classes, about 36,800 boxes) from a seed, then
times whole processes in turn: build/bin/retina-eval, which also writes its report, and what is
installed for this Python of hotcoco, faster-coco-eval and pycocotools (slow: once). Prints the medians, what
each needs in memory above the memory that it needs for an empty results file, and the largest
difference of the 12 numbers.
"""
import argparse
import importlib.util
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEER = """
import sys, io, contextlib
{imports}
with contextlib.redirect_stdout(io.StringIO()):
    truth = COCO(sys.argv[1])
    found = truth.loadRes(sys.argv[2])
    scored = COCOeval(truth, found, "bbox")
    scored.evaluate(); scored.accumulate(); scored.summarize()
print("STATS", *(float(x).hex() for x in scored.stats[:12]))
"""
PEERS = {
    "hotcoco": ("hotcoco", "from hotcoco import COCO, COCOeval"),
    "faster-coco-eval": ("faster_coco_eval", "from faster_coco_eval import COCO\n"
                         "from faster_coco_eval import COCOeval_faster as COCOeval"),
    "pycocotools": ("pycocotools", "from pycocotools.coco import COCO\n"
                    "from pycocotools.cocoeval import COCOeval"),
}


def make_set(folder, images, classes, detections, seed):
    """Writes instances.json, results.json and empty.json."""
    dice = random.Random(seed)
    weights = [1 / (1 + k) ** 0.7 for k in range(classes)]
    annotations, results = [], []
    per_image = detections / images
    for image in range(1, images + 1):
        present = dice.choices(range(1, classes + 1), weights, k=dice.randint(1, 6))
        boxes = []
        for _ in range(min(60, int(dice.expovariate(1 / 6.9)) + 1)):
            side = 2 ** dice.uniform(2.5, 8.6)
            w, h = min(side * dice.uniform(.6, 1.6), 630), min(side * dice.uniform(.6, 1.6), 470)
            box = [dice.uniform(0, 640 - w), dice.uniform(0, 480 - h), w, h]
            boxes.append((dice.choice(present), box))
            annotations.append({"id": len(annotations) + 1, "image_id": image,
                                "category_id": boxes[-1][0], "bbox": [round(x, 2) for x in box],
                                "area": round(w * h * dice.uniform(.4, 1), 3),
                                "iscrowd": int(dice.random() < .012)})
        for k in range(round(per_image * image) - round(per_image * (image - 1))):
            if k < 3 * len(boxes):
                label, (x, y, w, h) = boxes[k % len(boxes)]
                slip = .07 * (1 + k // len(boxes) * 3)
                box = [x + w * dice.gauss(0, slip), y + h * dice.gauss(0, slip),
                       w * (1 + dice.gauss(0, slip)), h * (1 + dice.gauss(0, slip))]
                box[2:] = [max(1, side) for side in box[2:]]
                score = min(.999, max(.001, dice.betavariate(3, 2) / (1 + k // len(boxes))))
                if dice.random() < .1:
                    label = dice.randint(1, classes)
            else:
                w, h = dice.uniform(4, 200), dice.uniform(4, 200)
                box = [dice.uniform(0, 640 - w), dice.uniform(0, 480 - h), w, h]
                label, score = dice.choice(present + [dice.randint(1, classes)]), dice.betavariate(1, 9)
            results.append({"image_id": image, "category_id": label, "bbox": box, "score": score})
    truth = {"images": [{"id": i, "file_name": f"{i:012}.jpg", "width": 640, "height": 480}
                        for i in range(1, images + 1)],
             "annotations": annotations,
             "categories": [{"id": k, "name": f"class {k}"} for k in range(1, classes + 1)]}
    (folder / "instances.json").write_text(json.dumps(truth))
    (folder / "results.json").write_text(json.dumps(results))
    # One detection: pycocotools fails on none.
    (folder / "empty.json").write_text(json.dumps(results[:1]))
    return len(annotations), len(results)


def run(command):
    """Seconds, largest resident bytes, standard output of a whole process."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{command[0]}: exit {process.returncode}: {err.strip()[-400:]}")
    return time.monotonic() - begin, out


def largest_rss(command):
    """Resident bytes of a process, by a parent of its own: getrusage keeps the largest child."""
    code = ("import resource,subprocess,sys; subprocess.run(sys.argv[1:],stdout=-3,stderr=-3);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    return int(subprocess.check_output([sys.executable, "-c", code, *command])) * 1024


def our_command(folder, results, threads):
    output = tempfile.mkdtemp(dir=folder)
    command = [str(ROOT / "build/bin/retina-eval"), "--detections", str(folder / results),
               "--annotations", str(folder / "instances.json"), "--output", output]
    return ["taskset", "-c", "0", *command] if threads == 1 else command, output


def our_stats(output):
    return json.loads(Path(output, "metrics.json").read_text())["stats"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--detections", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], choices=list(PEERS))
    parser.add_argument("--keep", help="folder for the set; made there when it has none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "results.json").exists():
            made = make_set(folder, options.images, options.classes, options.detections,
                            options.seed)
            print(f"{options.images} images, {made[0]} boxes, {made[1]} detections, "
                  f"seed {options.seed}")
        compare(folder, options)


def compare(folder, options):
    peers = {}
    for name, (module, imports) in PEERS.items():
        if name in options.without:
            continue
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not installed for {sys.executable}: skipped")
            continue
        peers[name] = [sys.executable, "-c", PEER.format(imports=imports),
                       str(folder / "instances.json")]
    times = {name: [] for name in ["ours", "ours, 1 core", *peers]}
    stats = {}
    for repeat in range(options.repeats):
        for name, threads in (("ours", 0), ("ours, 1 core", 1)):
            command, output = our_command(folder, "results.json", threads)
            seconds, _ = run(command)
            times[name].append(seconds)
            stats[name] = our_stats(output)
        for name, command in peers.items():
            if name == "pycocotools" and repeat > 0:
                continue
            seconds, out = run([*command, str(folder / "results.json")])
            times[name].append(seconds)
            stats[name] = [float.fromhex(x) for x in re.search(r"STATS (.*)", out)[1].split()]
    medians = {name: statistics.median(values) for name, values in times.items()}
    count = options.detections
    for name, median in medians.items():
        row = f"{name:17} {median:8.3f} s"
        if name in peers:
            row += f" {median / medians['ours']:7.1f} x"
            worst = max(abs(a - b) for a, b in zip(stats[name], stats["ours"]))
            row += f"   12 numbers differ by {worst:.1e}"
        command = (lambda results: our_command(folder, results, 1 if "1 core" in name else 0)[0]
                   if name not in peers else [*peers[name], str(folder / results)])
        full, empty = largest_rss(command("results.json")), largest_rss(command("empty.json"))
        row += f"   {full / 2**20:.0f} MiB, {(full - empty) / count:.0f} bytes a detection"
        print(row, flush=True)


if __name__ == "__main__":
    main()
