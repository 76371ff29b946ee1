"""The ONNX models, run by ONNX Runtime and by OpenVINO from Python, find what the TorchScript files do:
every detection, every probability. ONNX's own checker and strict shape inference accept them.

usage: onnx_equals_torchscript.py BUILD_DIR [PICTURES]

Untrained networks of several shapes, versions and numbers of classes, on photographs of mixed sizes (those
below $RETINA_TEST_DATA, default ../shared/data beside the checkout; without them, rendered scenes).
"""
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

from inference_model_equals_torchvision import photographs

SCORE, PROBABILITY = 1e-4, 1e-5
SIDES = ("--min-side", 256, "--max-side", 427)
V1 = ("--norm", "frozen", "--head-norm", "none", "--p6-from-p5")
DETECTORS = [("v1", "resnet18", 1), ("v2", "resnet18", 80), ("v1", "resnet50", 3), ("v2", "resnet50", 80),
             ("v1", "resnet101", 80), ("v2", "resnet101", 1)]
CLASSIFIERS = [("resnet18", 10), ("resnet50", 100), ("cifar-cnn", 10)]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"
    return done.stdout


def box_tolerance(box):
    """0.01 px, and as much again for each 100 px of the longer side."""
    return 0.01 * (1 + max(box[2] - box[0], box[3] - box[1]) / 100)


def onnx_runtime(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, session.run(None, {"images": images})))


def openvino_runtime(path):
    core = openvino.Core()
    compiled = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run_on(images):
        return {name: value for output, value in compiled([images]).items() for name in output.get_names()}
    return run_on


RUNTIMES = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino_runtime}


def checked(path, classes):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert len(metadata["names"].splitlines()) == classes, metadata["names"]
    return model


def unequal(want, got):
    """Detections of one picture that have no partner in the other list, and the largest differences."""
    free, lone, box_px, score = set(range(len(got["scores"]))), [], 0.0, 0.0
    for box, own, label in zip(want["boxes"], want["scores"], want["labels"]):
        for place in sorted(free, key=lambda place: abs(got["scores"][place] - own)):
            if abs(got["scores"][place] - own) > SCORE:
                lone.append((label, own, box))
                break
            difference = abs(got["boxes"][place] - box).max()
            if got["labels"][place] == label and difference <= box_tolerance(box):
                box_px, score = max(box_px, difference), max(score, abs(got["scores"][place] - own))
                free.remove(place)
                break
        else:
            lone.append((label, own, box))
    return lone + [(got["labels"][place], got["scores"][place], got["boxes"][place]) for place in free], box_px, score


def detections(outputs):
    boxes, scores, labels, counts = (numpy.asarray(outputs[name])[0]
                                     for name in ("boxes", "scores", "labels", "counts"))
    return {"boxes": boxes[:counts], "scores": scores[:counts], "labels": labels[:counts]}


@torch.no_grad()
def compare_detector(programs, folder, pictures, version, backbone, classes):
    run(programs["make-checkpoint"], "--output", folder / "c.pt", "--backbone", backbone, "--classes", classes,
        *SIDES, *(V1 if version == "v1" else ()))
    for ending in ("pt", "onnx"):
        run(programs["retina-convert"], "--checkpoint", folder / "c.pt", "--output", folder / f"m.{ending}",
            "--proof-images", 1, "--overwrite")
    checked(folder / "m.onnx", classes)
    script = torch.jit.load(folder / "m.pt")
    name = f"{version} {backbone}, {classes} classes"
    for runtime, opened in RUNTIMES.items():
        session = opened(folder / "m.onnx")
        count, lone, box_px, score = 0, [], 0.0, 0.0
        for picture in pictures:
            answer = script(torch.from_numpy(picture))
            want = detections(dict(zip(("boxes", "scores", "labels", "counts"), map(torch.Tensor.numpy, answer))))
            others, most_px, most_score = unequal(want, detections(session(picture)))
            count += len(want["scores"])
            lone += others
            box_px, score = max(box_px, most_px), max(score, most_score)
        # Of two equal scores, or of an overlap at the threshold, rounding decides.
        assert len(lone) <= count // 500, f"{name}, {runtime}: {len(lone)} of {count} alone: {lone[:5]}"
        assert count >= 50 * len(pictures), count
        print(f"{name}: {runtime}: {count} detections on {len(pictures)} pictures, {len(lone)} alone, "
              f"within {box_px:.2g} px and {score:.2g} score", flush=True)


@torch.no_grad()
def compare_classifier(programs, folder, pictures, backbone, classes):
    sides = ("--min-side", 32, "--max-side", 32) if backbone == "cifar-cnn" else (
        "--min-side", 224, "--max-side", 256)
    run(programs["make-checkpoint"], "--output", folder / "c.pt", "--task", "classify", "--backbone", backbone,
        "--classes", classes, *sides)
    for ending in ("pt", "onnx"):
        run(programs["retina-convert"], "--checkpoint", folder / "c.pt", "--output", folder / f"m.{ending}",
            "--overwrite")
    checked(folder / "m.onnx", classes)
    script = torch.jit.load(folder / "m.pt")
    for runtime, opened in RUNTIMES.items():
        session = opened(folder / "m.onnx")
        largest = max(abs(session(picture)["probabilities"] - script(torch.from_numpy(picture)).numpy()).max()
                      for picture in pictures)
        assert largest <= PROBABILITY, f"{backbone}, {runtime}: {largest}"
        print(f"classifier {backbone}, {classes} classes: {runtime}: {len(pictures)} pictures, "
              f"probabilities within {largest:.2g}", flush=True)


def compare():
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    programs = {name: build / "bin" / name for name in ("retina-convert", "render_scenes")}
    programs["make-checkpoint"] = next(path for path in build.rglob("make-checkpoint") if path.is_file())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images = photographs(build / "bin", folder)[0]
        photos = sorted(images.parents[2].glob("*/images/**/*.jpg"), key=lambda path: path.name)[:wanted]
        pictures = [numpy.array(Image.open(path).convert("RGB")).transpose(2, 0, 1)[None] for path in photos]
        for detector in DETECTORS:
            compare_detector(programs, folder, pictures, *detector)
        for classifier in CLASSIFIERS:
            compare_classifier(programs, folder, pictures, *classifier)


if __name__ == "__main__":
    compare()
