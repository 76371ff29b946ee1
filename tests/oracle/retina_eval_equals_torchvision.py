"""retina-eval's detections.json, from a checkpoint and from the converted model, against torchvision.

usage: retina_eval_equals_torchvision.py BUILD_DIR

The whole chain on photographs: coco-pack, retina-convert --import, retina-eval; boxes in pixels of the
original images, category ids of the annotation file. Every detection must be there.
"""
import json
import pathlib
import sys
import tempfile

import torch

from inference_model_equals_torchvision import (Comparison, imported_checkpoint, pixels_of, run,
                                                threshold_between_scores, torchvision_model)


def of_image(results, image_id):
    """COCO results of one image in torchvision's form."""
    mine = [one for one in results if one["image_id"] == image_id]
    boxes = torch.tensor([one["bbox"] for one in mine], dtype=torch.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return {"boxes": boxes, "scores": torch.tensor([one["score"] for one in mine]),
            "labels": torch.tensor([one["category_id"] // 10 - 1 for one in mine])}


@torch.no_grad()
def compare():
    programs = pathlib.Path(sys.argv[1]).resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checkpoint, images, instances = imported_checkpoint(programs, folder)
        run(programs / "coco-pack", "--annotations", folder / "instances.json", "--images", images,
            "--output", folder / "shards")
        reference = torchvision_model(checkpoint)
        threshold = threshold_between_scores(
            reference, [pixels_of(images, image) for image in instances["images"]])
        reference.score_thresh = threshold
        expected = {image["id"]: reference([pixels_of(images, image) / 255])[0]
                    for image in instances["images"]}

        run(programs / "retina-convert", "--checkpoint", checkpoint, "--output", folder / "m.pt",
            "--score-threshold", repr(threshold), "--verification-images", "2")
        for what, model, options in (
                ("checkpoint", checkpoint, ["--score-threshold", repr(threshold)]),
                ("converted model", folder / "m.pt", [])):
            output = folder / what
            run(programs / "retina-eval", "--model", model, "--data", folder / "shards", "--output", output,
                "--device", "cpu", *options)
            results = json.loads((output / "detections.json").read_text())
            comparison = Comparison()
            for image_id, theirs in expected.items():
                comparison.add(f"image {image_id}", of_image(results, image_id), theirs)
            assert len(results) == comparison.count, "results of images that there are not"
            comparison.conclude(f"retina-eval of a {what}")


if __name__ == "__main__":
    compare()
