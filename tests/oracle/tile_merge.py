#!/usr/bin/env python3
"""The merging of tiles' detections against the installed sahi, on fresh random sets.

    python3 tests/oracle/tile_merge.py BUILD_DIR
Every kind with every overlap and three thresholds. sahi gets each image's detections in the total order
of shared/evaluation/predict/tile_merge.h, ours in a random one; equal means the same bytes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from sahi.postprocess.combine import GreedyNMMPostprocess, NMMPostprocess, NMSPostprocess
from sahi.prediction import ObjectPrediction

KINDS = {"nms": NMSPostprocess, "greedy-nmm": GreedyNMMPostprocess, "nmm": NMMPostprocess}
SETS = int(os.environ.get("RETINA_RANDOM_SETS", "1000"))


def corners(one):
    x, y, width, height = one["bbox"]
    return [x, y, x + width, y + height]


def total_order(one):
    return (-one["score"], one["category_id"], corners(one))


def random_image(rng, image_id):
    """Objects, each found by several tiles, whole or cut, with f32 numbers as a network gives them."""
    found = []
    size = int(rng.choice([200, 2000, 30000]))
    for _ in range(int(rng.integers(1, 30))):
        width, height = rng.uniform(2, 150, 2)
        x, y = rng.uniform(0, size - 150, 2)
        kind = int(rng.choice([1, 7, 90]))
        for _ in range(int(rng.integers(1, 7))):
            left, top = np.maximum(0, [x, y] + rng.normal(0, 4, 2))
            part = rng.uniform(.2, 1.1, 2) if rng.random() < .5 else (1, 1)
            box = np.float32([left, top, width * part[0], height * part[1]])
            if rng.random() < .3:
                box = np.round(box)  # overlaps of exactly the threshold, equal boxes, no area
            score = rng.random() if rng.random() < .7 else rng.integers(1, 5) / 5
            found.append({"image_id": image_id, "category_id": kind,
                          "bbox": [float(v) for v in box], "score": float(np.float32(score))})
    if rng.random() < .2:
        found += found[:3]
    return found


def by_sahi(found, kind, match, threshold):
    predictions = [ObjectPrediction(bbox=corners(one), score=one["score"],
                                    category_id=one["category_id"])
                   for one in sorted(found, key=total_order)]
    with np.errstate(all="ignore"):  # boxes of no area
        kept = KINDS[kind](match_threshold=threshold, match_metric=match.upper(),
                           class_agnostic=False)(predictions)
    return sorted((-float(one.score.value), one.category.id, [float(v) for v in one.bbox.to_xyxy()])
                  for one in kept)


def by_us(build, folder, found, kind, match, threshold):
    (folder / "in.json").write_text(json.dumps(found))
    subprocess.run([build / "bin/merge_results", folder / "in.json", folder / "out.json", kind,
                    match, str(threshold)], check=True)
    return json.loads((folder / "out.json").read_text())


def equal(ours, theirs):
    """Corners come back from x, y, width, height in f64: all but the last bit."""
    return len(ours) == len(theirs) and all(
        (-a["score"], a["category_id"]) == (score, kind)
        and np.allclose(corners(a), box, rtol=1e-14, atol=0)
        for a, (score, kind, box) in zip(ours, theirs, strict=True))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    sets = [random_image(rng, number) for number in range(SETS)]
    together = [one for found in sets for one in found]
    rng.shuffle(together)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind in KINDS:
            for match in ("iou", "ios"):
                for threshold in (.5, .3, .8):
                    ours = by_us(build, folder, together, kind, match, threshold)
                    by_image = {}
                    for one in ours:
                        by_image.setdefault(one["image_id"], []).append(one)
                    for number, found in enumerate(sets):
                        theirs = by_sahi(found, kind, match, threshold)
                        assert equal(by_image[number], theirs), f"{kind} {match} {threshold}: set {number}"
                    print(f"{kind}, {match}, {threshold}: {SETS} sets, {len(together)} boxes, "
                          f"{len(ours)} kept: equal", flush=True)
        crowd = [dict(one, image_id=1) for one in together]
        for kind in KINDS:
            begin = time.perf_counter()
            theirs = by_sahi(crowd, kind, "ios", .5)
            middle = time.perf_counter()
            assert equal(by_us(build, folder, crowd, kind, "ios", .5), theirs)
            print(f"{kind}: one image of {len(crowd)} boxes, {len(theirs)} kept: equal; sahi "
                  f"{middle - begin:.1f} s, ours {time.perf_counter() - middle:.1f} s with the files")


if __name__ == "__main__":
    main()
