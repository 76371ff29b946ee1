"""Writes tests/parity/golden from torchvision and pycocotools: what the C++ parity tests compare with.

    python make_golden.py           writes the files
    python make_golden.py --check   recomputes and compares; exit 1 and the differences if any

The inputs (weights, images, boxes) are drawn by counter_random.py and by tests/parity/golden.cpp alike,
so the files hold results only: every tensor as its norm, up to 256 elements at fixed places (4 of a
backbone's gradients) and 4 projections on random signs.
"""

import concurrent.futures
import contextlib
import copy
import functools
import hashlib
import importlib.metadata
import io
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torchvision
import torchvision.models
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torchvision.models import resnet
from torchvision.models.detection import RetinaNet
from torchvision.models.detection import retinanet_resnet50_fpn, retinanet_resnet50_fpn_v2
from torchvision.models.detection._utils import BoxCoder, Matcher, _box_loss
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN, _resnet_fpn_extractor
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.retinanet import LastLevelP6P7, RetinaNetHead
from torchvision.models.detection.transform import GeneralizedRCNNTransform
from torchvision.ops import FrozenBatchNorm2d, batched_nms, box_iou, sigmoid_focal_loss

from counter_random import SEED, bits, uniform

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
SAMPLES = 256
PROJECTIONS = 4
LARGEST_TENSOR = 1024 * 1024 * 9  # a 3x3 convolution of a Wide ResNet
CLASSES = 5
PADDED = (128, 160)
IMAGE_SIZES = [(120, 160), (128, 141)]
BOXES = [[10.5, 20.0, 90.25, 110.0], [100.0, 30.0, 130.0, 75.5], [60.0, 60.0, 68.0, 71.0]]
LABELS = [1, 4, 0]
ANCHOR_SIZES = [16, 32, 64, 128, 256]
CURVE_STEPS = 10
RMSPROP_STEPS = 10
# The rates keep boxes from crossing the kinks of their loss, where f32 noise grows step by step.
V1 = dict(frozen=True, p6_from_c5=False, head_norm=False, loss="l1", lr=5e-5)
V2 = dict(frozen=False, p6_from_c5=True, head_norm=True, loss="giou", lr=2e-5)
CASES = {
    "v1_resnet18": dict(V1, body=resnet.resnet18, channels=512),
    "v1_resnet50": dict(V1, body=resnet.resnet50, channels=2048),
    "v2_resnet18": dict(V2, body=resnet.resnet18, channels=512),
    "v2_resnet50": dict(V2, body=resnet.resnet50, channels=2048),
}


CLASSIFIERS = {"classifier_resnet18": resnet.resnet18, "classifier_resnet50": resnet.resnet50}
# Those that are no ResNets: names and shapes of all of them, numbers of one of each kind.
BACKBONES = ("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2",
             "wide_resnet101_2", "regnet_x_400mf", "regnet_x_800mf", "regnet_x_1_6gf",
             "regnet_x_3_2gf", "regnet_x_8gf", "mobilenet_v3_large")
MEASURED_BACKBONES = ("resnext50_32x4d", "wide_resnet50_2", "regnet_x_400mf", "mobilenet_v3_large")
BACKBONE_SAMPLES = 4
LABEL_SMOOTHING = 0.1
CLASSIFIER_LABELS = [1, 4]
CLASSIFIER_LR = 5e-6  # as small as those above, for the same reason


def f32(stream, shape, low, high):
    return torch.from_numpy(uniform(stream, shape, low, high)).float()


def short(value):
    """9 digits: any f32 survives them."""
    return float(f"{value:.9g}")


def numbers(tensor):
    return [short(v) for v in tensor.detach().double().reshape(-1).tolist()]


@functools.cache
def signs():
    """[PROJECTIONS, LARGEST_TENSOR] of -1 and 1: bit k of place i of stream 5."""
    word = torch.from_numpy(bits(5, LARGEST_TENSOR).astype(np.int64))
    return torch.stack([((word >> k) & 1).to(torch.int8) * 2 - 1 for k in range(PROJECTIONS)])


def sample(tensor, most=SAMPLES):
    """Norm, up to `most` elements evenly spread over the row-major order, and the sums over all
    elements times random signs."""
    flat = tensor.detach().double().reshape(-1)
    count = min(most, flat.numel())
    places = [i * flat.numel() // count for i in range(count)]
    return {"norm": short(flat.norm()), "values": numbers(flat[places]),
            "projections": [short(s[:flat.numel()].double() @ flat) for s in signs()]}


def weight(number, name, shape, frozen):
    """The value of tensor `number` of the state dict; golden.cpp has the same rule."""
    stream = 1000 + number
    if name.endswith("num_batches_tracked"):
        return torch.zeros(shape, dtype=torch.int64)
    if len(shape) == 4:
        fan_in = shape[1] * shape[2] * shape[3]
        # The outputs are damped: without norms in the heads, losses would explode in training.
        gain = (1.0 if name.startswith("backbone.fpn.") else
                0.2 if "cls_logits" in name or "bbox_reg" in name else 2.0)
        bound = math.sqrt(3 * gain / fan_in)
        return f32(stream, shape, -bound, bound)
    if len(shape) == 2:
        bound = math.sqrt(3 / shape[1])
        return f32(stream, shape, -bound, bound)
    if name.endswith("cls_logits.bias"):
        return f32(stream, shape, -3.5, -2.5)
    if name.endswith("running_var"):
        return f32(stream, shape, 0.75, 1.25)
    if name.endswith("bn3.weight") and not frozen:
        return f32(stream, shape, 0.1, 0.3)
    norm = ".bn" in name or name.endswith((".1.weight", ".1.bias"))
    if norm and not frozen and name.endswith("weight"):
        return f32(stream, shape, 0.2, 0.5)
    if norm and not frozen and name.endswith("bias"):
        # Away from the kink of the rectifiers: there f32 noise, which batch statistics enlarge,
        # switches units, and torchvision's own gradients move by 4 % with the memory layout.
        return f32(stream, shape, 0.5, 1.5)
    if name.endswith("weight"):
        return f32(stream, shape, 0.4, 0.8)
    return f32(stream, shape, -0.1, 0.1)


def anchor_sizes(sizes):
    return tuple((x, int(x * 2 ** (1.0 / 3)), int(x * 2 ** (2.0 / 3))) for x in sizes)


def anchor_generator(sizes):
    return AnchorGenerator(anchor_sizes(sizes), ((0.5, 1.0, 2.0),) * len(sizes))


def build(case):
    body = case["body"](norm_layer=FrozenBatchNorm2d if case["frozen"] else torch.nn.BatchNorm2d)
    extra = LastLevelP6P7(case["channels"] if case["p6_from_c5"] else 256, 256)
    backbone = _resnet_fpn_extractor(body, 5, returned_layers=[2, 3, 4], extra_blocks=extra)
    head_norm = (lambda channels: torch.nn.GroupNorm(32, channels)) if case["head_norm"] else None
    head = RetinaNetHead(256, 9, CLASSES, norm_layer=head_norm)
    head.regression_head._loss_type = case["loss"]
    model = RetinaNet(backbone, CLASSES, anchor_generator=anchor_generator(ANCHOR_SIZES), head=head)
    model.load_state_dict({name: weight(number, name, tuple(tensor.shape), case["frozen"])
                           for number, (name, tensor) in enumerate(model.state_dict().items())})
    return model.train()


def detections(model, outputs, features, images):
    level_counts = [9 * f.shape[-2] * f.shape[-1] for f in features]
    split = {key: list(value.split(level_counts, dim=1)) for key, value in outputs.items()}
    anchors = [list(a.split(level_counts)) for a in model.anchor_generator(images, features)]
    found = model.postprocess_detections(split, anchors, images.image_sizes)
    return [{"boxes": [numbers(box) for box in d["boxes"]], "scores": numbers(d["scores"]),
             "labels": d["labels"].tolist()} for d in found]


def truth_near(found):
    """[image, category, x, y, w, h] made from every third detection, moved a little."""
    truth = []
    for image, one in enumerate(found):
        moves = uniform(70 + image, (len(one["boxes"]), 4), -0.12, 0.12)
        for place in range(0, len(one["boxes"]), 3):
            x1, y1, x2, y2 = one["boxes"][place]
            box, size = [x1, y1, x2 - x1, y2 - y1], [x2 - x1, y2 - y1, x2 - x1, y2 - y1]
            truth.append([image, one["labels"][place] + 1,
                          *[short(v + m * s) for v, m, s in zip(box, moves[place], size)]])
    return truth


def twelve_numbers(truth, found):
    results = [{"image_id": image, "category_id": label + 1, "score": score,
                "bbox": [x1, y1, x2 - x1, y2 - y1]}
               for image, one in enumerate(found)
               for (x1, y1, x2, y2), score, label in zip(one["boxes"], one["scores"], one["labels"])]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {"images": [{"id": i} for i in range(len(found))],
                        "annotations": [{"id": i + 1, "image_id": t[0], "category_id": t[1],
                                         "bbox": t[2:], "area": t[4] * t[5], "iscrowd": 0}
                                        for i, t in enumerate(truth)],
                        "categories": [{"id": c + 1} for c in range(CLASSES)]}
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return [float(s) for s in evaluation.stats]


def padded_images():
    pixels = f32(1, (2, 3, *PADDED), -2.0, 2.0)
    for image, (height, width) in enumerate(IMAGE_SIZES):
        pixels[image, :, height:, :] = 0
        pixels[image, :, :, width:] = 0
    return ImageList(pixels, IMAGE_SIZES)


def gradient_norm(model):
    return short(math.sqrt(sum(float(p.grad.double().square().sum()) for p in model.parameters())))


def forward(model, images):
    targets = [{"boxes": torch.tensor(BOXES), "labels": torch.tensor(LABELS)},
               {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}]
    features = list(model.backbone(images.tensors).values())
    outputs = model.head(features)
    losses = model.compute_loss(targets, outputs, model.anchor_generator(images, features))
    return features, outputs, losses["classification"], losses["bbox_regression"]


def model_case(case):
    images = padded_images()
    model = build(case)
    trained = copy.deepcopy(model).double()
    same_model = copy.deepcopy(model)
    features, outputs, classification, box_regression = forward(model, images)
    # In f64: in f32 an activation beside ReLU's kink is on either side of it, as the CPU's kernels have it.
    exact = forward(trained, ImageList(images.tensors.double(), IMAGE_SIZES))
    (exact[2] + exact[3]).backward()
    result = {
        "logits": sample(outputs["cls_logits"]),
        "deltas": sample(outputs["bbox_regression"]),
        "classification": short(classification),
        "box_regression": short(box_regression),
        "gradient_norm": gradient_norm(trained),
        "gradients": {name: sample(p.grad) for name, p in trained.named_parameters()},
        # Frozen statistics are inputs.
        "buffers": {} if case["frozen"] else
                   {name: sample(b) for name, b in model.named_buffers()},
    }
    with torch.no_grad():
        result["detections"] = detections(model, outputs, features, images)
    truth = truth_near(result["detections"])
    result["ap"] = {"truth": truth, "stats": twelve_numbers(truth, result["detections"])}
    result["curve"] = curve(same_model, images, case["lr"])
    return result


def curve(model, images, lr):
    """Both losses before each of the updates."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    losses = []
    for _ in range(CURVE_STEPS):
        _, _, classification, box_regression = forward(model, images)
        losses.append([short(classification), short(box_regression)])
        optimizer.zero_grad()
        (classification + box_regression).backward()
        optimizer.step()
    return losses


def classifier_case(body):
    """A ResNet with its last layer: logits, cross-entropy, gradients, the losses of 10 updates."""
    images, labels = padded_images().tensors, torch.tensor(CLASSIFIER_LABELS)
    model = body(num_classes=CLASSES)
    model.load_state_dict({
        name: weight(number, name if name.startswith("fc.") else "backbone.body." + name,
                     tuple(tensor.shape), False)
        for number, (name, tensor) in enumerate(model.state_dict().items())})

    def loss_of(logits):
        return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)

    # In f64: in f32 the gradients of two images through 50 batch norms depend on the CPU's kernels.
    logits = copy.deepcopy(model).double()(images.double())
    trained = copy.deepcopy(model).double()
    loss = loss_of(trained(images.double()))
    loss.backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=CLASSIFIER_LR, momentum=0.9,
                                weight_decay=1e-4)
    losses = []
    for _ in range(CURVE_STEPS):
        step_loss = loss_of(model(images))
        losses.append(short(step_loss))
        optimizer.zero_grad()
        step_loss.backward()
        optimizer.step()
    return {"logits": sample(logits), "cross_entropy": short(loss),
            "gradient_norm": gradient_norm(trained),
            "gradients": {name: sample(p.grad) for name, p in trained.named_parameters()},
            "buffers": {name: sample(b) for name, b in trained.named_buffers()},
            "curve": losses}


def backbone_case(name):
    """A classifier in evaluation mode, in f64: logits, cross-entropy and gradients."""
    images, labels = padded_images().tensors.double(), torch.tensor(CLASSIFIER_LABELS)
    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    bare = ("fc.", "features.", "classifier.")
    model.load_state_dict({
        name: weight(number, name if name.startswith(bare) else "backbone.body." + name,
                     tuple(tensor.shape), False)
        for number, (name, tensor) in enumerate(model.state_dict().items())})
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.eps = 1e-5  # MobileNetV3's is 1e-3: that of the configuration
    model.double().eval()
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    return {"logits": sample(logits), "cross_entropy": short(loss),
            "gradient_norm": gradient_norm(model),
            "gradients": {name: sample(p.grad, BACKBONE_SAMPLES)
                          for name, p in model.named_parameters()}}


def nano_detector():
    """torchvision's parts put together as --size nano has them (train/recipes.cpp)."""
    features = torchvision.models.mobilenet_v3_large(norm_layer=torch.nn.BatchNorm2d).features
    backbone = BackboneWithFPN(features, {"6": "0", "12": "1", "16": "2"}, [40, 112, 960], 64,
                               LastLevelP6P7(64, 64))
    head = RetinaNetHead(64, 9, 91, functools.partial(torch.nn.GroupNorm, 32))
    for tower in (head.classification_head, head.regression_head):
        tower.conv = tower.conv[:2]
    return RetinaNet(backbone, 91, head=head)


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


def resize_case(stream, height, width, min_side, max_side):
    """The network's input made of a random image."""
    image = (f32(stream, (height, width, 3), 0, 256)).floor().permute(2, 0, 1) / 255
    transform = GeneralizedRCNNTransform(min_side, max_side, [0.485, 0.456, 0.406],
                                         [0.229, 0.224, 0.225])
    images, _ = transform([image])
    return {"picture": [stream, height, width, min_side, max_side],
            "size": list(images.image_sizes[0]), "padded": list(images.tensors.shape[-2:]),
            "sample": sample(images.tensors)}


def box_loss_case(kind, beta, target_std, anchors):
    boxes = matcher_boxes(0)
    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    near = coder.encode_single(boxes, anchors)
    # Near the boxes, at random, and beyond the clipped size.
    deltas = torch.cat([near + f32(31, near.shape, -0.4, 0.4), f32(30, near.shape, -6, 6)])
    deltas.requires_grad_()
    anchors, boxes = anchors.repeat(2, 1), boxes.repeat(2, 1)
    if kind == "smooth_l1":
        target = coder.encode_single(boxes, anchors)
        loss = torch.nn.functional.smooth_l1_loss(deltas / target_std, target / target_std,
                                                  reduction="sum", beta=beta)
    else:
        loss = _box_loss(kind, coder, anchors, boxes, deltas)
    loss.backward()
    return {"sum": short(loss), "gradient": [numbers(row) for row in deltas.grad]}


def atss(boxes, anchors, level_counts):
    """Zhang et al. 2020, algorithm 1: the box of each anchor, -1 for none. k = 9 times the 9 anchors of a
    cell and 0.01 px, as in the authors' code; of equal distances the first anchor, of equal IoUs the first
    box."""
    quality = box_iou(boxes, anchors)
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2
    best = torch.full((len(anchors),), -1.0)
    matches = torch.full((len(anchors),), -1)
    for number, box in enumerate(boxes):
        distance = (centres - (box[:2] + box[2:]) / 2).pow(2).sum(1)
        candidates, first = [], 0
        for count in level_counts:
            order = distance[first:first + count].sort(stable=True).indices
            candidates.append(first + order[:81])
            first += count
        candidates = torch.cat(candidates)
        iou = quality[number, candidates]
        threshold = iou.double().mean() + iou.double().std()
        sides = torch.cat([centres[candidates] - box[:2], box[2:] - centres[candidates]], 1)
        positive = (iou.double() >= threshold) & (sides.min(1).values > 0.01) & (iou > best[candidates])
        best[candidates[positive]] = iou[positive]
        matches[candidates[positive]] = number
    return matches


def quality_loss_case(kind, anchors):
    """Foreground anchors whose predicted boxes are near or far, then background."""
    boxes = matcher_boxes(0)
    count = len(boxes)
    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    near = coder.encode_single(boxes, anchors)
    deltas = torch.cat([near + f32(31, near.shape, -0.4, 0.4), f32(30, near.shape, -6, 6)])
    found = coder.decode_single(deltas, anchors.repeat(2, 1))
    quality = box_iou(found, boxes.repeat(2, 1)).diagonal()
    logits = f32(41, (3 * count, 4), -6, 6).requires_grad_()
    target = torch.zeros(3 * count, 4)
    target[torch.arange(2 * count), torch.arange(2 * count) % count % 4] = quality
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = logits.sigmoid()
    if kind == "quality-focal":  # Li et al. 2020, eq. 3
        weight = (target - p).abs() ** 2
    else:  # Zhang et al. 2021, eq. 2
        weight = torch.where(target > 0, target, 0.75 * p ** 2)
    loss = (weight * entropy).sum()
    loss.backward()
    return {"sum": short(loss), "gradient": [numbers(row) for row in logits.grad]}


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
    level_counts = [9 * math.ceil(160 / 2 ** level) * math.ceil(224 / 2 ** level)
                    for level in range(3, 8)]
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
        "atss": [run_lengths(atss(matcher_boxes(case), anchors, level_counts)) for case in range(2)],
        "quality_loss": {kind: quality_loss_case(kind, anchors[100:100 + len(boxes)])
                         for kind in ("quality-focal", "varifocal")},
        "encoded": coder.encode_single(boxes, anchors[100:100 + len(boxes)]).double().tolist(),
        "decoded": coder.decode_single(deltas, anchors[100:100 + len(boxes)]).double().tolist(),
        "box_loss": {name: box_loss_case(kind, beta, std, anchors[100:100 + len(boxes)])
                     for name, kind, beta, std in (("l1", "l1", 1, 1),
                                                   ("smooth-l1", "smooth_l1", 1 / 9, 1),
                                                   ("keras", "smooth_l1", 1 / 9, 0.2),
                                                   ("giou", "giou", 1, 1),
                                                   ("ciou", "ciou", 1, 1))},
        "resize": [resize_case(80, 97, 133, 64, 107), resize_case(81, 150, 61, 80, 133),
                   resize_case(82, 40, 53, 96, 160)],
        "nms_few": nms_case(50, 400),
        "nms_many": nms_case(60, 1600),
        "focal": {"sum": float(focal.detach().double()), "gradient": logits.grad.double().tolist()},
    }


def rmsprop_case(dtype):
    """RMSPROP_STEPS updates of a random tensor by random gradients: what it and its state become.
    Keras' form: epsilon outside the root, no momentum."""
    parameter = torch.from_numpy(uniform(90, (23,), -1.0, 1.0)).to(dtype).requires_grad_()
    optimizer = torch.optim.RMSprop([parameter], lr=0.01, alpha=0.9, eps=1e-7, weight_decay=0.05)
    for step in range(RMSPROP_STEPS):
        parameter.grad = torch.from_numpy(uniform(91 + step, (23,), -2.0, 2.0)).to(dtype)
        optimizer.step()
    return {"parameter": parameter.detach().double().tolist(),
            "square_avg": optimizer.state[parameter]["square_avg"].double().tolist()}


def optimizers_file():
    return json.dumps({"rmsprop": {"f32": rmsprop_case(torch.float32),
                                   "f64": rmsprop_case(torch.float64)}},
                      separators=(",", ":")) + "\n"


def state_list(model):
    return "".join(f"{name} {'x'.join(map(str, tensor.shape))}\n"
                   for name, tensor in model.state_dict().items())


def model_file(name):
    torch.set_num_threads(1)
    if name in MEASURED_BACKBONES:
        case = backbone_case(name)
    else:
        case = classifier_case(CLASSIFIERS[name]) if name in CLASSIFIERS else model_case(CASES[name])
    return json.dumps(case, separators=(",", ":")) + "\n"


def compute():
    with concurrent.futures.ProcessPoolExecutor(max_workers=2) as pool:
        names = [*CASES, *CLASSIFIERS, *MEASURED_BACKBONES]
        files = {f"{name}.json": text for name, text in zip(names, pool.map(model_file, names))}
    files["ops.json"] = json.dumps(ops_case(), separators=(",", ":")) + "\n"
    files["optimizers.json"] = optimizers_file()
    bare = dict(weights=None, weights_backbone=None, num_classes=91)
    files["state_v1.txt"] = state_list(retinanet_resnet50_fpn(**bare))
    files["state_v2.txt"] = state_list(retinanet_resnet50_fpn_v2(**bare))
    files["state_resnet50.txt"] = state_list(resnet.resnet50(num_classes=91))
    for name in BACKBONES:
        files[f"state_{name}.txt"] = state_list(getattr(torchvision.models, name)(num_classes=91))
    files["state_nano.txt"] = state_list(nano_detector())
    manifest = {"torch": torch.__version__.split("+")[0],
                "torchvision": torchvision.__version__.split("+")[0],
                "pycocotools": importlib.metadata.version("pycocotools"),
                "numpy": np.__version__, "seed": SEED, "samples": SAMPLES,
                "projections": PROJECTIONS,
                "sha256": {name: hashlib.sha256(text.encode()).hexdigest()
                           for name, text in sorted(files.items())}}
    files["MANIFEST.json"] = json.dumps(manifest, indent=2) + "\n"
    return files


def is_sample(value):
    return isinstance(value, dict) and value.keys() == {"norm", "values", "projections"}


def sample_error(old, new, floor):
    """Largest difference in units of the tensor's size, or of `floor` where that is larger."""
    size = max(old["norm"], floor)
    spread = max(np.linalg.norm(old["values"]), floor)
    return max(abs(old["norm"] - new["norm"]) / size,
               np.linalg.norm(np.subtract(old["values"], new["values"])) / spread,
               np.max(np.abs(np.subtract(old["projections"], new["projections"]))) / size)


def same_detections(old, new):
    """Scores closer than rounding may swap places, so each looks for a partner of its own."""
    left = list(zip(new["boxes"], new["scores"], new["labels"]))
    for box, score, label in zip(old["boxes"], old["scores"], old["labels"]):
        partner = next((one for one in left if one[2] == label and abs(one[1] - score) <= 1e-4
                        and np.max(np.abs(np.subtract(one[0], box))) <= 1e-2), None)
        if partner is None:
            return False
        left.remove(partner)
    return not left


def differences(place, old, new, floor=1e-12):
    """Places where two JSON values differ by more than f32 arithmetic on another machine may."""
    if is_sample(old) and is_sample(new):
        error = sample_error(old, new, floor)
        return [] if error <= 1e-3 else [f"{place}: {error}"]
    if place.endswith(".detections"):
        same = len(old) == len(new) and all(map(same_detections, old, new))
        return [] if same else [f"{place}: differ"]
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        # A bias that only moves what a batch norm centres again has no gradient but rounding.
        floor = max(floor, 1e-6 * old.get("gradient_norm", 0))
        return [d for key in old for d in differences(f"{place}.{key}", old[key], new[key], floor)]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i in range(len(old)) for d in differences(f"{place}[{i}]", old[i], new[i])]
    if isinstance(old, float) and isinstance(new, float):
        return [] if math.isclose(old, new, rel_tol=1e-3, abs_tol=1e-4) else [f"{place}: {old} {new}"]
    return [] if old == new else [f"{place}: {str(old)[:60]} {str(new)[:60]}"]


def check(files):
    manifest = json.loads((GOLDEN / "MANIFEST.json").read_text())
    found = []
    for name, text in files.items():
        old = (GOLDEN / name).read_text()
        if name == "MANIFEST.json":
            continue
        if hashlib.sha256(old.encode()).hexdigest() != manifest["sha256"][name]:
            found.append(f"{name}: is not the file of the manifest")
        if name.endswith(".txt"):
            found += [] if old == text else [f"{name}: differs"]
            continue
        old, new = json.loads(old), json.loads(text)
        if "ap" in old:  # the committed ground truth, these detections
            new["ap"] = {"truth": old["ap"]["truth"],
                         "stats": twelve_numbers(old["ap"]["truth"], new["detections"])}
        found += differences(name, old, new)
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
