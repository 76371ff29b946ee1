"""The converted model, loaded by Python alone, gives torchvision's detections.

usage: inference_model_equals_torchvision.py BUILD_DIR

Takes real photographs below $RETINA_TEST_DATA (default ../shared/data beside the checkout) where
they are, generated noise otherwise.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from PIL import Image
from torchvision.models.detection import retinanet_resnet50_fpn

CLASSES = 5
MIN_SIDE, MAX_SIDE = 320, 533
BOX_PX, SCORE = 1e-2, 1e-4


def images():
    root = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", root.parent / "shared" / "data"))
    photos = sorted((data / "tinycoco_permissive").rglob("*.jpg"))[:20]
    for photo in photos:
        yield numpy.array(Image.open(photo).convert("RGB"))
    if not photos:
        random = numpy.random.default_rng(1)
        for height, width in ((240, 320), (333, 250), (64, 64), (500, 700)):
            yield random.integers(0, 256, (height, width, 3), dtype=numpy.uint8)


def unpaired(ours, theirs):
    """Detections of `ours` without an equal one in `theirs`, and the largest differences."""
    free = list(range(len(theirs["scores"])))
    lone, largest_box, largest_score = [], 0.0, 0.0
    for box, score, label in zip(ours["boxes"], ours["scores"], ours["labels"]):
        for i in free:
            box_px = (theirs["boxes"][i] - box).abs().max().item()
            difference = (theirs["scores"][i] - score).abs().item()
            if theirs["labels"][i] == label and box_px <= BOX_PX and difference <= SCORE:
                largest_box, largest_score = max(largest_box, box_px), max(largest_score, difference)
                free.remove(i)
                break
        else:
            lone.append((label.item(), score.item(), box.tolist()))
    return lone, largest_box, largest_score


@torch.no_grad()
def main():
    programs = pathlib.Path(sys.argv[1]) / "bin"
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, converted = pathlib.Path(folder) / "c.pt", pathlib.Path(folder) / "m.pt"
        subprocess.run([programs / "make-checkpoint", "--output", checkpoint, "--backbone",
                        "resnet50", "--norm", "frozen", "--head-norm", "none", "--p6-from-p5",
                        "--classes", str(CLASSES), "--anchor-sizes", "32,64,128,256,512",
                        "--min-side", str(MIN_SIDE), "--max-side", str(MAX_SIDE)], check=True)
        subprocess.run([programs / "retina-convert", "--checkpoint", checkpoint, "--output",
                        converted, "--proof-images", "2"], check=True)
        state = torch.load(checkpoint, weights_only=True)["model"]
        module = torch.jit.load(converted)

    assert module.category_names == [f"class {i}" for i in range(CLASSES)]
    assert '"resnet50"' in module.config
    reference = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=CLASSES,
                                       min_size=MIN_SIDE, max_size=MAX_SIDE)
    reference.load_state_dict(state, strict=True)
    reference.eval()

    total, lone_total, box_px, score = 0, 0, 0.0, 0.0
    for pixels in images():
        image = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        if total == 0:
            # An untrained model's scores lie close together: a threshold that some pass.
            reference.score_thresh = 0.0
            threshold = reference([image / 255])[0]["scores"][50].item()
            reference.score_thresh = module.score_threshold = threshold
        boxes, scores, labels, counts = (output[0] for output in module(image[None]))
        count = int(counts)
        ours = {"boxes": boxes[:count], "scores": scores[:count], "labels": labels[:count]}
        theirs = reference([image / 255])[0]
        lone, largest_box, largest_score = unpaired(ours, theirs)
        lone_total += len(lone)
        total += count
        box_px, score = max(box_px, largest_box), max(score, largest_score)
    # An untrained model gives neighbouring anchors scores that differ by 1e-6: the last bit decides
    # which of them suppresses the other, or passes the threshold.
    assert total - lone_total >= 20, (total, lone_total)
    assert lone_total <= total // 20, (total, lone_total)
    print(f"inference model: {total - lone_total} detections equal torchvision's within {box_px:.2g} px and "
          f"{score:.2g} score, {lone_total} decided by a tie")


if __name__ == "__main__":
    main()
