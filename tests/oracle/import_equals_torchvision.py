"""Weights that the installed torchvision writes, imported, give torchvision's outputs.

usage: import_equals_torchvision.py BUILD_DIR

v1 with 91 classes and frozen batch norm of eps 0 (as torchvision runs its published weights), as a
zip, as a legacy file and under the names of older torchvisions; v2; a ResNet-50 classifier. Takes
photographs below $RETINA_TEST_DATA (default ../shared/data beside the checkout) where they are,
generated noise otherwise.
"""
import collections
import os
import pathlib
import re
import sys
import tempfile

import numpy
import onnxruntime
import torch
from PIL import Image
from torchvision.models import resnet50
from torchvision.models.detection import RetinaNet, retinanet_resnet50_fpn_v2
from torchvision.models.detection._utils import overwrite_eps
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from inference_model_equals_torchvision import Comparison, run

ROWS = 91
SIDES = {"min_size": 256, "max_size": 448}
LOGITS = 1e-4
CLASS_LAYER = "head.classification_head.cls_logits."


def images(count):
    root = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", root.parent / "shared" / "data"))
    photos = sorted((data / "tinycoco_permissive").rglob("*.jpg"))[:count]
    if photos:
        arrays = [numpy.array(Image.open(photo).convert("RGB")) for photo in photos]
    else:
        random = numpy.random.default_rng(1)
        arrays = [random.integers(0, 256, (240, 320, 3), dtype=numpy.uint8) for _ in range(count)]
    return [torch.from_numpy(array).permute(2, 0, 1).contiguous() for array in arrays]


def v1(rows=ROWS, eps=0.0):
    """retinanet_resnet50_fpn(weights=COCO_V1) without the download: frozen batch norm, eps 0."""
    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None,
                                   returned_layers=[2, 3, 4],
                                   extra_blocks=LastLevelP6P7(256, 256))
    model = RetinaNet(backbone, rows, **SIDES)
    overwrite_eps(model, eps)
    return model


def v2(rows=ROWS):
    return retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, num_classes=rows,
                                     **SIDES)


@torch.no_grad()
def spread(model, image, ids):
    """Random statistics, and scores that spread: no two detections tie. Rows that no category has
    never fire."""
    generator = torch.Generator().manual_seed(3)
    state = model.state_dict()
    for name, variance in state.items():
        if not name.endswith(".running_var"):
            continue
        norm = name.removesuffix("running_var")
        # Small variances show the eps; the weights keep activations near 1 whatever they are.
        variance.copy_(10 ** (torch.rand(variance.shape, generator=generator) * 4 - 4))
        state[norm + "running_mean"].copy_(
            torch.randn(variance.shape, generator=generator) * 0.1 * variance.sqrt())
        state[norm + "weight"].copy_(0.6 * variance.sqrt())
    model.eval()
    layer = model.head.classification_head.cls_logits
    layer.bias.fill_(-3)
    logits = head_outputs(model, image)["cls_logits"]
    layer.weight.mul_(1.5 / logits.std())
    unused = [row for row in range(ROWS) if row not in ids]
    layer.bias.view(9, ROWS)[:, unused] = -50
    return model


@torch.no_grad()
def head_outputs(model, image):
    batch, _ = model.transform([image / 255])
    return model.head(list(model.backbone(batch.tensors).values()))


def older_names(state):
    """As torchvision before 0.13 named them; its published v1 file still does."""
    renamed = collections.OrderedDict()
    for name, tensor in state.items():
        name = re.sub(r"(_head\.conv)\.(\d)\.0\.", lambda m: f"{m[1]}.{2 * int(m[2])}.", name)
        name = re.sub(r"(fpn\.\w+_blocks\.\d)\.0\.", r"\1.", name)
        renamed[name] = tensor
    return renamed


@torch.no_grad()
def compare_detector(name, reference, rebuilt, checkpoint, converted, photos):
    """`rebuilt`: torchvision's model of as many classes as the checkpoint, for its weights."""
    result = rebuilt.load_state_dict(checkpoint["model"], strict=True)
    assert not result.missing_keys and not result.unexpected_keys
    rebuilt.eval()
    ids = torch.tensor([category["id"] for category in checkpoint["categories"]])
    session = onnxruntime.InferenceSession(converted, providers=["CPUExecutionProvider"])
    logits, comparison = 0.0, Comparison()
    for place, image in enumerate(photos):
        theirs, ours = head_outputs(reference, image), head_outputs(rebuilt, image)
        logits = max(logits, (theirs["cls_logits"][..., ids] - ours["cls_logits"]).abs().max().item(),
                     (theirs["bbox_regression"] - ours["bbox_regression"]).abs().max().item())
        boxes, scores, labels, counts = (torch.from_numpy(output[0:1])[0] for output in session.run(
            ["boxes", "scores", "labels", "counts"], {"images": image[None].numpy()}))
        count = int(counts)
        found = {"boxes": boxes[:count], "scores": scores[:count], "labels": ids[labels[:count]]}
        comparison.add(f"photo {place}", found, reference([image / 255])[0])
    print(f"{name}: logits and deltas within {logits:.2g}", flush=True)
    assert logits <= LOGITS
    comparison.conclude(name, least=100)


def main():
    programs = pathlib.Path(sys.argv[1]) / "bin"
    photos = images(4)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights, output, model = folder / "w.pth", folder / "c.pt", folder / "m.onnx"

        def imported(state, *options, **how):
            torch.save(state, weights, **how)
            print(run(programs / "retina-convert", "--import", weights, "--output", output,
                      "--overwrite", *options), end="")
            return torch.load(output, weights_only=True)

        def converted():
            """The import's inference model at this script's image sizes."""
            run(programs / "retina-convert", "--checkpoint", output, "--output", model,
                "--overwrite", "--verification-images", "1")
            return model

        legacy = {"_use_new_zipfile_serialization": False}
        ids = [category["id"] for category in imported(v1().state_dict())["categories"]]
        assert len(ids) == 80 and ids[-1] == 90
        sides = ["--min-side", SIDES["min_size"], "--max-side", SIDES["max_size"]]

        reference = spread(v1(), photos[0], ids)
        state = reference.state_dict()
        checkpoint = imported(state, *sides)
        compare_detector("v1, zip", reference, v1(80), checkpoint, converted(), photos)
        for title, other, how in (("v1, legacy", state, legacy),
                                  ("v1, older names", older_names(state), {}),
                                  ("v1, training checkpoint", {"model": state, "epoch": 25}, {})):
            again = imported(other, *sides, **how)["model"]
            assert all(torch.equal(again[key], checkpoint["model"][key]) for key in again)
            assert again.keys() == checkpoint["model"].keys()
            print(f"{title}: the same checkpoint")

        reference = spread(v2(), photos[0], ids)
        checkpoint = imported(reference.state_dict(), *sides)
        compare_detector("v2", reference, v2(80), checkpoint, converted(), photos)

        classifier = resnet50()
        body = imported(classifier.state_dict())["model"]
        for key, tensor in classifier.state_dict().items():
            if not key.startswith("fc."):
                assert torch.equal(body[f"backbone.body.{key}"], tensor), key
        print("ResNet-50 classifier: every tensor of the backbone is the same")


if __name__ == "__main__":
    main()
