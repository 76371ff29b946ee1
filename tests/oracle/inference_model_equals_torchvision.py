"""The converted model, run from Python by ONNX Runtime and by OpenVINO, gives torchvision's detections:
all of them. ONNX's own checker and strict shape inference accept it.

usage: inference_model_equals_torchvision.py BUILD_DIR

The weights are random, but every layer is scaled to the photographs as a trained network's are: its
scores are spread, and no tie decides what it finds. Photographs are those below $RETINA_TEST_DATA
(default ../shared/data beside the checkout); without them, rendered scenes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
import openvino
import torch
from PIL import Image
from torchvision.models.detection import retinanet_resnet50_fpn

CLASSES = 5
PHOTOS = 20
MIN_SIDE, MAX_SIDE = 320, 533
MAX_DETECTIONS = 300
BOX_PX, SCORE = 1e-2, 1e-4


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"
    return done.stdout


def onnx_runtime(path):
    """A function of images [N, 3, H, W] u8 that gives the model's outputs by their names."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, map(torch.from_numpy,
                                              session.run(None, {"images": images.numpy()}))))


def openvino_runtime(path):
    """The same by OpenVINO."""
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda images: {name: torch.from_numpy(value.copy())
                           for output, value in model([images.numpy()]).items()
                           for name in output.get_names()}


RUNTIMES = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino_runtime}


def checked_metadata(path):
    """Those of a model that ONNX accepts."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return {entry.key: entry.value for entry in model.metadata_props}


def photographs(programs, folder):
    """(folder of images, instances of PHOTOS of them). Category and image ids have gaps."""
    root = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("RETINA_TEST_DATA", root.parent / "shared" / "data"))
    images = data / "tinycoco_permissive/images/val"
    annotations = data / "tinycoco_permissive/annotations/instances_val.json"
    if not annotations.is_file():
        run(programs / "render_scenes", "--output", folder / "scenes", "--train", "1",
            "--validation", PHOTOS, "--intact")
        images = folder / "scenes/images/val2017"
        annotations = folder / "scenes/annotations/instances_val2017.json"
    source = json.loads(annotations.read_text())
    chosen = sorted(source["images"], key=lambda image: image["file_name"])[:PHOTOS]
    new_ids = {image["id"]: 70 - 3 * place for place, image in enumerate(chosen)}
    return images, {
        "images": [image | {"id": new_ids[image["id"]]} for image in chosen],
        "annotations": [one | {"image_id": new_ids[one["image_id"]],
                               "category_id": 10 * (1 + one["category_id"] % CLASSES)}
                        for one in source["annotations"] if one["image_id"] in new_ids],
        "categories": [{"id": 10 * (label + 1), "name": f"class {label}"}
                       for label in range(CLASSES)]}


def plain_model():
    return retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=CLASSES,
                                  min_size=MIN_SIDE, max_size=MAX_SIDE,
                                  detections_per_img=MAX_DETECTIONS)


def scaled_model(photos):
    """torchvision's v1 with random weights whose layers have outputs of sane size on `photos`:
    batch norm with their statistics, the other convolutions scaled one after the other."""
    torch.manual_seed(7)
    model = plain_model()
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = None  # the mean over all that is seen
    batch = model.transform([pixels / 255 for pixels in photos])[0].tensors
    model.backbone.body(batch)
    model.eval()

    scaled = set()

    def scale(name, spread):
        def hook(layer, inputs, output):
            if name in scaled:
                return output
            scaled.add(name)
            factor = spread / output.std()
            layer.weight.mul_(factor)
            layer.bias.zero_()
            return layer.forward(*inputs)
        return hook

    hooks = [layer.register_forward_hook(scale(name, {"cls_logits": 0.6, "bbox_reg": 0.06}.get(
                 name.rsplit(".", 1)[-1], 1.4)))
             for name, layer in model.named_modules()
             if isinstance(layer, torch.nn.Conv2d) and not name.startswith("backbone.body")]
    model.head(list(model.backbone(batch).values()))
    for hook in hooks:
        hook.remove()
    assert len(scaled) == len(hooks)
    model.head.classification_head.cls_logits.bias.fill_(-2)
    return model


def imported_checkpoint(programs, folder):
    """Those weights as a checkpoint. Returns (checkpoint, folder of images, instances)."""
    images, instances = photographs(programs, folder)
    (folder / "instances.json").write_text(json.dumps(instances))
    model = scaled_model([pixels_of(images, image) for image in instances["images"][:8]])
    torch.save(model.state_dict(), folder / "weights.pth")
    run(programs / "retina-convert", "--import", folder / "weights.pth", "--categories",
        folder / "instances.json", "--min-side", MIN_SIDE, "--max-side", MAX_SIDE, "--output",
        folder / "c.pt")
    return folder / "c.pt", images, instances


def torchvision_model(checkpoint):
    """torchvision's own model with the checkpoint's weights, every name and shape in its place."""
    model = plain_model()
    model.load_state_dict(torch.load(checkpoint, weights_only=True)["model"], strict=True)
    return model.eval()


def pixels_of(images, image):
    """uint8 [3, H, W]"""
    pixels = numpy.array(Image.open(images / image["file_name"]).convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def threshold_between_scores(model, photos, rank=40):
    """A score threshold that about `rank` detections of a photo pass, in the middle of the widest
    gap between scores there: none of them may fall on either side by rounding."""
    model.score_thresh = 0.0
    scores = torch.cat([model([pixels / 255])[0]["scores"] for pixels in photos])
    scores = scores.sort(descending=True).values[rank * len(photos) // 2:rank * len(photos)]
    gaps = scores[:-1] - scores[1:]
    widest = int(gaps.argmax())
    assert gaps[widest] > 1e-5, "scores that lie too close"
    return ((scores[widest] + scores[widest + 1]) / 2).item()


class Comparison:
    """Holds each of our detections against one of theirs, image by image."""

    def __init__(self):
        self.count, self.box_px, self.score, self.problems = 0, 0.0, 0.0, []

    def add(self, name, ours, theirs):
        free = list(range(len(theirs["scores"])))
        for box, score, label in zip(ours["boxes"], ours["scores"], ours["labels"]):
            self.count += 1
            for i in free:
                box_px = (theirs["boxes"][i] - box).abs().max().item()
                difference = (theirs["scores"][i] - score).abs().item()
                if theirs["labels"][i] == label and box_px <= BOX_PX and difference <= SCORE:
                    self.box_px = max(self.box_px, box_px)
                    self.score = max(self.score, difference)
                    free.remove(i)
                    break
            else:
                self.problems.append(f"{name}: ours alone: {label} {score:.6f} {box.tolist()}")
        for i in free:
            self.problems.append(f"{name}: torchvision's alone: {theirs['labels'][i]} "
                                 f"{theirs['scores'][i]:.6f} {theirs['boxes'][i].tolist()}")

    def conclude(self, what, least=10 * PHOTOS):
        assert not self.problems, "\n".join(self.problems[:20])
        assert self.count >= least, self.count
        print(f"{what}: all {self.count} detections equal torchvision's within "
              f"{self.box_px:.2g} px and {self.score:.2g} score")


@torch.no_grad()
def compare():
    programs = pathlib.Path(sys.argv[1]).resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checkpoint, images, instances = imported_checkpoint(programs, folder)
        reference = torchvision_model(checkpoint)
        reference.score_thresh = threshold_between_scores(
            reference, [pixels_of(images, image) for image in instances["images"]])
        run(programs / "retina-convert", "--checkpoint", checkpoint, "--output", folder / "m.onnx",
            "--verification-images", "2", "--score-threshold", reference.score_thresh)
        metadata = checked_metadata(folder / "m.onnx")
        assert metadata["names"].splitlines() == [f"class {label}" for label in range(CLASSES)]
        assert metadata["category_ids"].split() == [str(10 * (label + 1)) for label in range(CLASSES)]
        assert "resnet50" in metadata["retina.json"]

        comparisons = {name: Comparison() for name in RUNTIMES}
        models = {name: opened(folder / "m.onnx") for name, opened in RUNTIMES.items()}
        for image in instances["images"]:
            pixels = pixels_of(images, image)
            theirs = reference([pixels / 255])[0]
            for name, model in models.items():
                ours = {key: value[0] for key, value in model(pixels[None]).items()}
                count = int(ours.pop("counts"))
                comparisons[name].add(image["file_name"],
                                      {key: value[:count] for key, value in ours.items()}, theirs)
        for name, comparison in comparisons.items():
            comparison.conclude(name)


if __name__ == "__main__":
    compare()
