"""An imported and converted classifier, run from Python by ONNX Runtime and by OpenVINO, gives
torchvision's probabilities.

usage: classifier_equals_torchvision.py BUILD_DIR [BACKBONE...]

torchvision's networks with random weights, one of each family or those that are named, are imported with their last layer (--task
classify) and converted; the checkpoint's `model` loads strictly into torchvision's class. Images are
resized by F.interpolate without antialias, cut to their middle as CenterCrop does it, and normalised.
Photographs are those below $RETINA_TEST_DATA (default ../shared/data beside the checkout), and noise
of odd sizes.
"""
import pathlib
import sys
import tempfile

import torch
import torchvision.models
from torch.nn.functional import interpolate
from torchvision.transforms.functional import center_crop

from import_equals_torchvision import images as photographs
from inference_model_equals_torchvision import RUNTIMES, checked_metadata, run

CLASSES = 7
BACKBONES = ("resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "regnet_x_400mf",
             "mobilenet_v3_large")
# The norms at the end of residual branches.
LAST_NORMS = (".bn3", ".f.c.1", ".block.2.1", ".block.3.1")
PROBABILITY, LOGIT = 1e-5, 1e-4
SPREAD = 1.5  # of the logits of a class over the images
SIZES = ((1, 1), (1, 90), (90, 1), (13, 400), (400, 13), (223, 224), (225, 301), (640, 480))
MEAN, STD = ((torch.tensor(values).view(3, 1, 1) for values in
              ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))))


def images():
    generator = torch.Generator().manual_seed(2)
    return photographs(12) + [torch.randint(256, (3, height, width), generator=generator,
                                       dtype=torch.uint8) for width, height in SIZES]


def square(image, crop, shorter):
    """torchvision's Resize(shorter, antialias=False) and CenterCrop(crop), in f64: coordinates in f32
    are off by more than all else here."""
    height, width = image.shape[1:]
    least = min(height, width)
    size = [shorter * height // least, shorter * width // least]
    pixels = interpolate((image.double() / 255)[None], size=size, mode="bilinear",
                         align_corners=False, antialias=False)
    return (center_crop(pixels, crop)[0] - MEAN) / STD


@torch.no_grad()
def spread(model, batch):
    """Statistics that fit the images, residual branches and logits as a trained network's: blocks
    that double all they get would double its rounding, too."""
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.momentum = None  # the mean over all that is seen
    modules = dict(model.named_modules())
    last_norms = LAST_NORMS if "layer1.0.conv1" not in modules or "layer1.0.bn3" in modules else (".bn2",)
    for name, norm in modules.items():
        if name.endswith(last_norms) and isinstance(norm, torch.nn.BatchNorm2d):
            norm.weight.fill_(0.2)
    model(batch)
    model.eval()
    last = model.fc if hasattr(model, "fc") else model.classifier[3]
    last.weight.mul_(SPREAD / model(batch).std(0).mean())
    last.bias.sub_(model(batch).mean(0))
    return model


@torch.no_grad()
def compare(programs, folder, make, sides):
    crop, shorter = sides
    torch.manual_seed(3)
    all_images = images()
    batch = torch.stack([square(image, crop, shorter) for image in all_images]).float()
    reference = spread(make(num_classes=CLASSES), batch)
    weights, names, checkpoint, model = (folder / name for name in
                                         ("w.pth", "names.txt", "c.pt", "m.onnx"))
    torch.save(reference.state_dict(), weights)
    names.write_text("".join(f"class {label}\n" for label in range(CLASSES)))
    run(programs / "retina-convert", "--import", weights, "--task", "classify", "--categories", names,
        "--min-side", crop, "--max-side", shorter, "--output", checkpoint, "--overwrite")
    run(programs / "retina-convert", "--checkpoint", checkpoint, "--output", model, "--overwrite",
        "--verification-images", "1")

    stored = torch.load(checkpoint, weights_only=True)["model"]
    rebuilt = make(num_classes=CLASSES)
    rebuilt.load_state_dict(stored, strict=True)
    for name, tensor in reference.state_dict().items():
        assert torch.equal(stored[name], tensor), name
    rebuilt.eval()
    assert checked_metadata(model)["names"] == names.read_text()
    theirs = torch.stack([rebuilt(pixels[None])[0] for pixels in batch])
    for runtime, opened in RUNTIMES.items():
        module = opened(model)
        ours = [module(image[None]) for image in all_images]
        probabilities, logits = (torch.cat([one[key] for one in ours])
                                 for key in ("probabilities", "logits"))
        best = theirs.softmax(1).topk(2).values
        assert all((theirs.argmax(1) == probabilities.argmax(1)) | (best[:, 0] - best[:, 1] < 1e-5))
        probability = (theirs.softmax(1) - probabilities).abs().max().item()
        logit = (theirs - logits).abs().max().item()
        print(f"{make.__name__}, {crop} of {shorter}, {runtime}: {len(all_images)} images, "
              f"probabilities within {probability:.2g}, logits {logit:.2g}", flush=True)
        assert len(set(probabilities.argmax(1).tolist())) > 1, "always the same proves nothing"
        assert probability <= PROBABILITY and logit <= LOGIT


def main():
    programs = pathlib.Path(sys.argv[1]) / "bin"
    with tempfile.TemporaryDirectory() as name:
        for backbone in sys.argv[2:] or BACKBONES:
            for sides in ((224, 256), (176, 233)) if backbone == "resnet18" else ((224, 256),):
                compare(programs, pathlib.Path(name), getattr(torchvision.models, backbone), sides)


if __name__ == "__main__":
    main()
