#!/usr/bin/env python3
"""Writes coco_cases.json: small random scoring problems and pycocotools' answers.

Run with an interpreter that has pycocotools and numpy:
    python3 tests/evaluation/golden/make_goldens.py [OUTPUT]
With the same versions the file comes out byte for byte the same. The C++ test reads it without
Python; tests/oracle compares it with the installed reference again.
"""
import contextlib
import hashlib
import importlib.metadata
import io
import json
import pathlib
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SEED = 20260711


def box_near(rng, box, amount):
    jitter = rng.normal(0, amount, 4) * np.array([box[2], box[3], box[2], box[3]])
    x, y, w, h = np.array(box) + jitter
    return [float(x), float(y), float(max(w, 0.5)), float(max(h, 0.5))]


def random_case(rng, name, images=12, categories=3, objects=4, found=8, found_at_least=0,
                crowd=0.1, score_steps=0,
                whole_pixels=False, first_id=1, unknown=0, category_gap=1, area_edges=False):
    """`score_steps` > 0 rounds scores to that many values: ties. `whole_pixels` makes equal IoUs."""
    truth = {"images": [], "annotations": [], "categories": []}
    results = []
    ids = rng.permutation(images * 7)[:images]
    for c in range(categories):
        truth["categories"].append({"id": 1 + c * category_gap, "name": f"class {c}"})
    for image_id in ids:
        truth["images"].append({"id": int(image_id), "file_name": f"{image_id}.jpg",
                                "width": 640, "height": 480})
        boxes = []
        for _ in range(rng.integers(0, objects + 1)):
            side = float(rng.choice([12, 32, 50, 96, 150]))
            w, h = side * rng.uniform(0.5, 2), side * rng.uniform(0.5, 2)
            x, y = rng.uniform(0, 600), rng.uniform(0, 440)
            box = [float(np.round(v)) if whole_pixels else float(v) for v in (x, y, w, h)]
            area = box[2] * box[3] * float(rng.uniform(0.4, 1.0))
            if area_edges:
                area = float(rng.choice([32.0 ** 2, 96.0 ** 2, np.nextafter(1024.0, 2e3),
                                         np.nextafter(9216.0, 0), 1e10]))
            category = 1 + int(rng.integers(0, categories)) * category_gap
            boxes.append((box, category))
            truth["annotations"].append({
                "id": first_id + len(truth["annotations"]), "image_id": int(image_id),
                "category_id": category, "bbox": box, "area": area,
                "iscrowd": int(rng.uniform() < crowd)})
        for _ in range(rng.integers(found_at_least, found + 1)):
            if boxes and rng.uniform() < 0.75:
                near, category = boxes[rng.integers(0, len(boxes))]
                if rng.uniform() < 0.1:
                    category = 1 + int(rng.integers(0, categories)) * category_gap
                box = box_near(rng, near, rng.choice([0.0, 0.03, 0.1, 0.2]))
                if whole_pixels:
                    box = [float(np.round(v)) for v in box]
                    box[2], box[3] = max(box[2], 1.0), max(box[3], 1.0)
            else:
                category = 1 + int(rng.integers(0, categories)) * category_gap
                box = [float(v) for v in rng.uniform(0, 300, 4)]
            if area_edges and rng.uniform() < 0.3:
                side = float(rng.choice([32, 96, 1e5]))
                box[2], box[3] = side, side
            score = float(rng.uniform())
            if score_steps:
                score = round(score * score_steps) / score_steps
            results.append({"image_id": int(image_id), "category_id": category, "bbox": box,
                            "score": score})
    for _ in range(unknown):
        results.append({"image_id": int(ids[0]), "category_id": 999, "bbox": [0., 0., 50., 50.],
                        "score": 0.99})
    rng.shuffle(results)
    return {"name": name, "truth": truth, "results": results}


def fresh_case(rng, number):
    """A case of random character."""
    return random_case(
        rng, f"random {number}", images=int(rng.integers(1, 25)), categories=int(rng.integers(1, 8)),
        objects=int(rng.integers(0, 9)), found=int(rng.choice([1, 10, 40, 160])),
        crowd=float(rng.choice([0, .1, .7])), score_steps=int(rng.choice([0, 3, 20])),
        whole_pixels=bool(rng.integers(0, 2)), first_id=int(rng.choice([-5, 0, 1])),
        unknown=int(rng.integers(0, 3)), category_gap=int(rng.integers(1, 9)),
        area_edges=bool(rng.integers(0, 2)))


def equal_iou_case():
    """Two objects equally far from the detections: the later one must win."""
    truth = {"images": [{"id": 1, "file_name": "1.jpg", "width": 100, "height": 100}],
             "categories": [{"id": 1, "name": "thing"}],
             "annotations": [
                 {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0., 0., 40., 40.],
                  "area": 500., "iscrowd": 0},
                 {"id": 2, "image_id": 1, "category_id": 1, "bbox": [8., 0., 40., 40.],
                  "area": 1600., "iscrowd": 0}]}
    results = [{"image_id": 1, "category_id": 1, "bbox": [4., 0., 40., 40.], "score": .9},
               {"image_id": 1, "category_id": 1, "bbox": [0., 0., 40., 40.], "score": .8}]
    return {"name": "equal IoU goes to the later object", "truth": truth, "results": results}


def cases():
    rng = np.random.default_rng(SEED)
    yield random_case(rng, "plain")
    yield random_case(rng, "tied scores", score_steps=4, found=14)
    yield random_case(rng, "all scores equal", score_steps=1, found=10)
    yield random_case(rng, "whole pixels and tied scores", whole_pixels=True, score_steps=5)
    yield random_case(rng, "many crowds", crowd=0.6, objects=6)
    yield random_case(rng, "only crowds", crowd=1.0, images=6)
    yield random_case(rng, "area edges", area_edges=True, objects=5, found=12)
    yield random_case(rng, "more than 100 detections an image and class", images=3, categories=1,
                      objects=12, found=200, found_at_least=150, score_steps=60)
    yield random_case(rng, "annotation with id 0", first_id=0, crowd=0.0)
    yield random_case(rng, "negative annotation ids", first_id=-9)
    yield random_case(rng, "categories the annotations lack", unknown=5, category_gap=7)
    yield random_case(rng, "mostly empty images", images=30, objects=1, found=1)
    yield random_case(rng, "classes without objects", categories=12, images=5, objects=2)
    yield random_case(rng, "no objects at all", objects=0)
    yield equal_iou_case()


def evaluate(truth, results):
    """The finished COCOeval, and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        ground = COCO()
        ground.dataset = json.loads(json.dumps(truth))
        ground.createIndex()
        evaluation = COCOeval(ground, ground.loadRes(json.loads(json.dumps(results))), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        start = len(text.getvalue())
        evaluation.summarize()
    return evaluation, text.getvalue()[start:]


def score(truth, results):
    evaluation, text = evaluate(truth, results)
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]

    def mean(values):
        values = values[values > -1]
        return float(np.mean(values)) if len(values) else -1.0

    per_class = []
    for k in range(len(truth["categories"])):
        per_class.append(
            [mean(precision[:, :, k, 0, 2]), mean(precision[0, :, k, 0, 2]),
             mean(precision[5, :, k, 0, 2])] + [mean(precision[:, :, k, a, 2]) for a in (1, 2, 3)]
            + [mean(recall[:, k, 0, m]) for m in (0, 1, 2)]
            + [mean(recall[:, k, a, 2]) for a in (1, 2, 3)])
    return [float(s) for s in evaluation.stats], per_class, text


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).with_name("coco_cases.json"))
    made = []
    for case in cases():
        case["stats"], case["per_class"], case["summary"] = score(case["truth"], case["results"])
        made.append(case)
    body = json.dumps(made, separators=(",", ":"))
    manifest = {"made_by": "make_goldens.py", "seed": SEED,
                "pycocotools": importlib.metadata.version("pycocotools"),
                "numpy": importlib.metadata.version("numpy"),
                "sha256_of_cases": hashlib.sha256(body.encode()).hexdigest()}
    output.write_text('{"manifest":%s,\n"cases":%s}\n' % (json.dumps(manifest), body))
    print(f"{output}: {len(made)} cases, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
