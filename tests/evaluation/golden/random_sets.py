#!/usr/bin/env python3
"""Writes random_sets.json: pycocotools' 12 numbers for the 200 random sets of random_set.cpp, and
weighted means of its arrays.

    python3 tests/evaluation/golden/random_sets.py [OUTPUT]
The sets themselves are drawn by the counter-based generator, here and in C++ alike.
"""
import hashlib
import importlib.metadata
import json
import math
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "parity"))
from counter_random import SEED, units  # noqa: E402

SETS = 200
UNKNOWN_CATEGORY = 999
BLOCK = 4096  # numbers drawn at a time


class Dice:
    """Numbers in the order they are asked for."""

    def __init__(self, number):
        self.stream, self.place, self.values = 100000 + number, 0, []

    def unit(self):
        if self.place == len(self.values):
            self.values = units(self.stream, len(self.values) + BLOCK).tolist()
        self.place += 1
        return self.values[self.place - 1]

    def below(self, bound):
        return int(self.unit() * bound)

    def pick(self, choices):
        return choices[self.below(len(choices))]


def random_set(number):
    """The instances and the results, as COCO's JSON has them."""
    dice = Dice(number)
    images = 1 + dice.below(12)
    categories = 1 + dice.below(6)
    category_gap = 1 + dice.below(9)
    most_objects = dice.below(9)
    least_found, most_found = 0, dice.pick([1, 10, 40, 160])
    crowds = dice.pick([0, 0.1, 0.7])
    score_steps = dice.pick([0, 3, 20])
    whole_pixels = dice.below(2) == 1
    first_id = dice.pick([-5, 0, 1])
    area_edges = dice.below(2) == 1
    low_scores = dice.below(2) == 1
    unknown = dice.below(4)
    if most_found == 160:
        least_found, images, categories = 120, min(images, 3), 1

    def category(k):
        return 1 + k * category_gap

    truth = {"images": [], "annotations": [],
             "categories": [{"id": category(k), "name": f"class {k}"} for k in range(categories)]}
    results = []
    for image in range(images):
        image_id = (image * 37 + 11 * number) % 997
        truth["images"].append({"id": image_id, "file_name": f"{image}.jpg", "width": 640,
                                "height": 480})
        objects = []
        for _ in range(dice.below(most_objects + 1)):
            side = dice.pick([12, 32, 50, 96, 150])
            w = side * (0.5 + 1.5 * dice.unit())
            h = side * (0.5 + 1.5 * dice.unit())
            x = dice.unit() * 600
            y = dice.unit() * 440
            box = [x, y, w, h]
            if whole_pixels:
                box = [float(math.floor(v + 0.5)) for v in box]
            area = box[2] * box[3] * (0.4 + 0.6 * dice.unit())
            if area_edges:
                area = dice.pick([1024.0, 9216.0, 1024.0000000000002, 9215.999999999998, 1e10])
            objects.append((box, category(dice.below(categories))))
            truth["annotations"].append({
                "id": first_id + len(truth["annotations"]), "image_id": image_id,
                "category_id": objects[-1][1], "bbox": box, "area": area,
                "iscrowd": int(dice.unit() < crowds)})
        for _ in range(least_found + dice.below(most_found - least_found + 1)):
            if objects and dice.unit() < 0.75:
                near, label = objects[dice.below(len(objects))]
                if dice.unit() < 0.1:
                    label = category(dice.below(categories))
                amount = dice.pick([0, 0.03, 0.1, 0.2])
                box = [near[side] + amount * (2 * dice.unit() - 1) * near[2 + side % 2]
                       for side in range(4)]
                if whole_pixels:
                    box = [float(math.floor(v + 0.5)) for v in box]
            else:
                label = category(dice.below(categories))
                box = [300 * dice.unit() for _ in range(4)]
            if area_edges and dice.unit() < 0.3:
                box[2] = box[3] = dice.pick([32.0, 96.0, 1e5])
            score = dice.unit()
            if score_steps:
                score = math.floor(score * score_steps + 0.5) / score_steps
            if low_scores:
                score = score - 0.5
            results.append({"image_id": image_id, "category_id": label, "bbox": box,
                            "score": score})
    first = truth["images"][0]["id"]
    results += [{"image_id": first, "category_id": UNKNOWN_CATEGORY, "bbox": [0., 0., 50., 50.],
                 "score": 0.99} for _ in range(unknown)]
    if not results:
        results.append({"image_id": first, "category_id": category(0), "bbox": [5., 5., 20., 20.],
                        "score": 0.5})
    for i in range(len(results), 1, -1):
        j = dice.below(i)
        results[i - 1], results[j] = results[j], results[i - 1]
    return truth, results


def main():
    from make_goldens import evaluate
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "random_sets.json")
    scored = [evaluate(*random_set(number))[0] for number in range(SETS)]
    body = ",\n".join(json.dumps([float(s) for s in one.stats]) for one in scored)
    manifest = {"made_by": "random_sets.py", "seed": SEED, "sets": SETS,
                "pycocotools": importlib.metadata.version("pycocotools"),
                "numpy": importlib.metadata.version("numpy"),
                "sha256_of_stats": hashlib.sha256(body.encode()).hexdigest()}
    output.write_text('{"manifest":%s,\n"stats":[\n%s]}\n' % (json.dumps(manifest), body))
    print(f"{output}: {SETS} sets, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
