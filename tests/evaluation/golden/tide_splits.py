#!/usr/bin/env python3
"""Writes tide_splits.json: tidecv's error split of the 200 random sets of random_set.cpp and, where
the folder is there, of the real sets in ../shared/data/eval.

    python3 tests/evaluation/golden/tide_splits.py [OUTPUT]
Run with an interpreter that has tidecv, pycocotools and numpy. As in retina-eval, detections of
categories that the annotations lack are left out: tidecv would make classes of them.
"""
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys
import unittest.mock

# tidecv imports them for its plots and downloads alone.
for name in ("appdirs", "cv2", "matplotlib", "matplotlib.lines", "matplotlib.patches",
             "matplotlib.pyplot", "pandas", "seaborn"):
    sys.modules[name] = unittest.mock.MagicMock()
from tidecv import Data, TIDE  # noqa: E402
from tidecv.ap import ClassedAPDataObject  # noqa: E402
from tidecv.errors.main_errors import (BackgroundError, BoxError, ClassError,  # noqa: E402
                                       DuplicateError, FalseNegativeError, FalsePositiveError,
                                       MissedError, OtherError)

import random_sets  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = ("cocoapi_val2014_100", "tinycoco_val")
KINDS = {"classification": ClassError, "localisation": BoxError, "both": OtherError,
         "duplicate": DuplicateError, "background": BackgroundError, "missed": MissedError}


tidecvs_mean = ClassedAPDataObject.get_mAP


def mean_or_one(ap_data):
    """tidecv divides by zero when a correction leaves nothing to find and nothing found."""
    return 1.0 * 100 if all(one.is_empty() for one in ap_data.objs.values()) else \
        tidecvs_mean(ap_data)


def split(truth, results):
    """As retina-eval's "error_split": AP and costs in 0..1. None where there is nothing to find and
    nothing found from the start: there, too, tidecv divides by zero."""
    ground, found = Data("truth", max_dets=100), Data("found")
    for image in truth["images"]:
        ground.add_image(image["id"], image["file_name"])
    for category in truth["categories"]:
        ground.add_class(category["id"], category["name"])
    for one in truth["annotations"]:
        add = ground.add_ignore_region if one["iscrowd"] else ground.add_ground_truth
        add(one["image_id"], one["category_id"], one["bbox"])
    known = {category["id"] for category in truth["categories"]}
    for one in results:
        if one["category_id"] in known:
            found.add_detection(one["image_id"], one["category_id"], one["score"], one["bbox"])
    tide = TIDE(pos_threshold=.5, background_threshold=.1, mode=TIDE.BOX)
    try:
        run = tide.evaluate(ground, found)
    except ZeroDivisionError:
        return None
    with unittest.mock.patch.object(ClassedAPDataObject, "get_mAP", mean_or_one):
        costs, special = run.fix_main_errors(), run.fix_special_errors()
    counts = run.count_errors()
    return {"ap": run.ap / 100, "counts": [counts[kind] for kind in KINDS.values()],
            "costs": [float(costs[kind]) / 100 for kind in KINDS.values()],
            "false_positive_cost": special[FalsePositiveError] / 100,
            "false_negative_cost": special[FalseNegativeError] / 100}


def fixtures(data):
    made = {}
    for name in FIXTURES:
        if not (data / "eval" / name).is_dir():
            raise SystemExit(f"tide_splits: {name} is not in {data}/eval (set RETINA_TEST_DATA)")
        truth = json.loads((data / "eval" / name / "gt.json").read_text())
        made[name] = split(truth, json.loads((data / "eval" / name / "dt_bbox.json").read_text()))
    return made


def main():
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "tide_splits.json")
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA",
                                       HERE.parents[2].parent / "shared/data"))
    body = ",\n".join(json.dumps(split(*random_sets.random_set(number)))
                      for number in range(random_sets.SETS))
    manifest = {"made_by": "tide_splits.py", "seed": random_sets.SEED, "sets": random_sets.SETS,
                "tidecv": importlib.metadata.version("tidecv"),
                "pycocotools": importlib.metadata.version("pycocotools"),
                "sha256_of_splits": hashlib.sha256(body.encode()).hexdigest()}
    output.write_text('{"manifest":%s,\n"fixtures":%s,\n"splits":[\n%s]}\n'
                      % (json.dumps(manifest), json.dumps(fixtures(data)), body))
    print(f"{output}: {random_sets.SETS} sets, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
