"""Writes tests/parity/golden from torchvision: what the C++ parity tests compare with.

    python make_golden.py           writes the files
    python make_golden.py --check   recomputes and compares; exit 1 and the differences if any

The inputs (weights, images, boxes) are drawn by counter_random.py and by tests/parity/golden.cpp alike,
so the files hold results only: every tensor as its norm and up to 256 elements at fixed places.
"""

import hashlib
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torchvision
from torchvision.models import resnet
from torchvision.models.detection import RetinaNet
from torchvision.models.detection import retinanet_resnet50_fpn, retinanet_resnet50_fpn_v2
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.retinanet import LastLevelP6P7, RetinaNetHead
from torchvision.ops import FrozenBatchNorm2d, batched_nms, box_iou, sigmoid_focal_loss

from counter_random import SEED, uniform

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
SAMPLES = 256
CLASSES = 5
PADDED = (160, 192)
IMAGE_SIZES = [(150, 192), (160, 170)]
BOXES = [[10.5, 20.0, 90.25, 120.0], [100.0, 30.0, 130.0, 75.5], [60.0, 60.0, 68.0, 71.0]]
LABELS = [1, 4, 0]
CASES = {
    "v1": dict(frozen=True, p6_from_c5=False, head_norm=False, sizes=[32, 64, 128, 256, 512]),
    "v2": dict(frozen=False, p6_from_c5=True, head_norm=True, sizes=[16, 32, 64, 128, 256]),
}


def f32(stream, shape, low, high):
    return torch.from_numpy(uniform(stream, shape, low, high)).float()


def sample(tensor):
    """Norm and up to SAMPLES elements, evenly spread over the row-major order."""
    flat = tensor.detach().double().reshape(-1)
    count = min(SAMPLES, flat.numel())
    places = [i * flat.numel() // count for i in range(count)]
    return {"norm": float(flat.norm()), "values": flat[places].tolist()}


def weight(number, name, shape):
    """The value of tensor `number` of the state dict; golden.cpp has the same rule."""
    stream = 1000 + number
    if name.endswith("num_batches_tracked"):
        return torch.zeros(shape, dtype=torch.int64)
    if len(shape) == 4:
        fan_in = shape[1] * shape[2] * shape[3]
        gain = 1.0 if name.startswith("backbone.fpn.") else 2.0
        bound = math.sqrt(3 * gain / fan_in)
        return f32(stream, shape, -bound, bound)
    if name.endswith("cls_logits.bias"):
        return f32(stream, shape, -3.5, -2.5)
    if name.endswith("running_var"):
        return f32(stream, shape, 0.75, 1.25)
    if name.endswith("weight"):
        return f32(stream, shape, 0.4, 0.8)
    return f32(stream, shape, -0.1, 0.1)


def anchor_sizes(sizes):
    return tuple((x, int(x * 2 ** (1.0 / 3)), int(x * 2 ** (2.0 / 3))) for x in sizes)


def anchor_generator(sizes):
    return AnchorGenerator(anchor_sizes(sizes), ((0.5, 1.0, 2.0),) * len(sizes))


def build(case):
    norm = FrozenBatchNorm2d if case["frozen"] else torch.nn.BatchNorm2d
    body = resnet.resnet18(weights=None, norm_layer=norm)
    extra = LastLevelP6P7(512 if case["p6_from_c5"] else 256, 256)
    backbone = _resnet_fpn_extractor(body, 5, returned_layers=[2, 3, 4], extra_blocks=extra)
    head_norm = (lambda channels: torch.nn.GroupNorm(32, channels)) if case["head_norm"] else None
    head = RetinaNetHead(256, 9, CLASSES, norm_layer=head_norm)
    model = RetinaNet(backbone, CLASSES, anchor_generator=anchor_generator(case["sizes"]), head=head)
    model.load_state_dict({name: weight(number, name, tuple(tensor.shape)) for number, (name, tensor)
                           in enumerate(model.state_dict().items())})
    return model.train()


def detections(model, outputs, features, images):
    level_counts = [9 * f.shape[-2] * f.shape[-1] for f in features]
    split = {key: list(value.split(level_counts, dim=1)) for key, value in outputs.items()}
    anchors = [list(a.split(level_counts)) for a in model.anchor_generator(images, features)]
    found = model.postprocess_detections(split, anchors, images.image_sizes)
    return [{"boxes": d["boxes"].double().tolist(), "scores": d["scores"].double().tolist(),
             "labels": d["labels"].tolist()} for d in found]


def model_case(case):
    model = build(case)
    pixels = f32(1, (2, 3, *PADDED), -2.0, 2.0)
    for image, (height, width) in enumerate(IMAGE_SIZES):
        pixels[image, :, height:, :] = 0
        pixels[image, :, :, width:] = 0
    images = ImageList(pixels, IMAGE_SIZES)
    targets = [{"boxes": torch.tensor(BOXES), "labels": torch.tensor(LABELS)},
               {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}]
    features = list(model.backbone(pixels).values())
    outputs = model.head(features)
    losses = model.compute_loss(targets, outputs, model.anchor_generator(images, features))
    (losses["classification"] + losses["bbox_regression"]).backward()
    result = {
        "logits": sample(outputs["cls_logits"]),
        "deltas": sample(outputs["bbox_regression"]),
        "classification": float(losses["classification"].detach().double()),
        "box_regression": float(losses["bbox_regression"].detach().double()),
        "gradients": {name: sample(p.grad) for name, p in model.named_parameters()},
        "buffers": {name: sample(b) for name, b in model.named_buffers()},
    }
    with torch.no_grad():
        result["detections"] = detections(model, outputs, features, images)
    return result


def matcher_boxes(case):
    """Boxes that tie: copies of anchors, twins, a speck, and (case 1) one that meets no anchor."""
    random = f32(20, (12, 4), 0.0, 100.0)
    boxes = torch.cat([random[:, :2], random[:, :2] + random[:, 2:] + 2], dim=1)
    extra = [[-19.0, -9.0, 21.0, 31.0], [50.0, 40.0, 90.0, 70.0], [50.0, 40.0, 90.0, 70.0],
             [77.0, 77.0, 78.0, 78.0]]
    if case == 1:
        extra.append([5000.0, 5000.0, 5010.0, 5010.0])
    return torch.cat([boxes, torch.tensor(extra)])


def all_anchors(sizes, padded):
    grids = []
    size = padded
    for halving in range(1, 8):
        size = tuple((s + 1) // 2 for s in size)
        if halving >= 3:
            grids.append(size)
    features = [torch.zeros(1, 1, *grid) for grid in grids]
    return anchor_generator(sizes)(ImageList(torch.zeros(1, 3, *padded), [padded]), features)[0]


def run_lengths(values):
    """[value, count, value, count, ...]"""
    runs = []
    for value in values.tolist():
        if runs and runs[-2] == value:
            runs[-1] += 1
        else:
            runs += [value, 1]
    return runs


def nms_case(stream, count):
    """Clustered boxes, scores on a coarse grid so that many tie, four classes."""
    corner, size = f32(stream, (count, 2), 0, 300), f32(stream + 1, (count, 2), 20, 60)
    boxes = torch.cat([corner, corner + size], dim=1)
    scores = (f32(stream + 2, (count,), 0, 1) * 64).floor() / 64
    labels = (f32(stream + 3, (count,), 0, 4)).floor().long()
    kept = batched_nms(boxes, scores, labels, 0.4).tolist()
    # Above 1,000 boxes the reference leaves the order of equal scores to an unstable sort.
    return sorted(kept, key=lambda place: (-float(scores[place]), place))


def ops_case():
    anchor_cases = {}
    for name, sizes, padded in (("coco", [32, 64, 128, 256, 512], (800, 1344)),
                                ("odd", [16.5, 21, 50, 100, 300], (96, 224))):
        anchors = all_anchors(sizes, padded)
        anchor_cases[name] = {"count": len(anchors), "sample": sample(anchors)}
    anchors = all_anchors([32, 64, 128, 256, 512], (160, 224))
    matches = []
    for case in range(2):
        quality = box_iou(matcher_boxes(case), anchors)
        matches += [run_lengths(Matcher(0.5, 0.4, True)(quality)),
                    run_lengths(Matcher(0.5, 0.4, False)(quality))]
    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    boxes = matcher_boxes(0)
    deltas = f32(30, (len(boxes), 4), -6, 6)
    logits = f32(40, (60, 4), -6, 6).requires_grad_()
    target = torch.zeros(60, 4)
    for anchor in range(0, 60, 7):
        target[anchor, anchor % 4] = 1
    focal = sigmoid_focal_loss(logits, target, alpha=0.25, gamma=2, reduction="sum")
    focal.backward()
    return {
        "anchors": anchor_cases,
        "matches": matches,
        "encoded": coder.encode_single(boxes, anchors[100:100 + len(boxes)]).double().tolist(),
        "decoded": coder.decode_single(deltas, anchors[100:100 + len(boxes)]).double().tolist(),
        "nms_few": nms_case(50, 400),
        "nms_many": nms_case(60, 1600),
        "focal": {"sum": float(focal.detach().double()), "gradient": logits.grad.double().tolist()},
    }


def state_list(model):
    return "".join(f"{name} {'x'.join(map(str, tensor.shape))}\n"
                   for name, tensor in model.state_dict().items())


def compute():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    files = {f"{name}.json": json.dumps(model_case(case)) for name, case in CASES.items()}
    files["ops.json"] = json.dumps(ops_case())
    bare = dict(weights=None, weights_backbone=None, num_classes=91)
    files["state_v1.txt"] = state_list(retinanet_resnet50_fpn(**bare))
    files["state_v2.txt"] = state_list(retinanet_resnet50_fpn_v2(**bare))
    manifest = {"torch": torch.__version__.split("+")[0],
                "torchvision": torchvision.__version__.split("+")[0],
                "numpy": np.__version__, "seed": SEED, "samples": SAMPLES,
                "sha256": {name: hashlib.sha256(text.encode()).hexdigest()
                           for name, text in sorted(files.items())}}
    files["MANIFEST.json"] = json.dumps(manifest, indent=2) + "\n"
    return files


def differences(place, old, new):
    """Places where two JSON values differ by more than f32 arithmetic on another machine may."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [d for key in old for d in differences(f"{place}.{key}", old[key], new[key])]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i in range(len(old)) for d in differences(f"{place}[{i}]", old[i], new[i])]
    if isinstance(old, float) and isinstance(new, float):
        return [] if math.isclose(old, new, rel_tol=1e-3, abs_tol=1e-4) else [f"{place}: {old} {new}"]
    return [] if old == new else [f"{place}: {str(old)[:60]} {str(new)[:60]}"]


def check(files):
    found = []
    for name, text in files.items():
        old = (GOLDEN / name).read_text()
        if name.endswith(".txt"):
            found += [] if old == text else [f"{name}: differs"]
        elif name != "MANIFEST.json":
            found += differences(name, json.loads(old), json.loads(text))
    print("\n".join(found[:20]) if found else f"{len(files)} golden files agree with the reference")
    return 1 if found else 0


def main():
    files = compute()
    if sys.argv[1:] == ["--check"]:
        return check(files)
    GOLDEN.mkdir(exist_ok=True)
    for name, text in files.items():
        (GOLDEN / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
