#!/usr/bin/env python3
"""What each --size of retina-train costs on one core: parameters, multiplications, and an image's latency as an ONNX
model of 32 and of 8 bits in OpenVINO, beside torchvision's ssdlite320_mobilenet_v3_large and retinanet_resnet50_fpn in
PyTorch and, as its exporter writes them, in OpenVINO.

    python3 tests/bench/infer/sizes.py --data SHARDS [--rounds 9] [--sizes nano,small] [--no-peers]

This Python needs numpy, onnx, openvino, torch and torchvision. Weights are random, so that hardly a box is suppressed;
images are squares of the size's --min-side. 8 bits are calibrated on SHARDS, which have 80 classes. A round takes each
model once; times are of the process on one core, so that others on the machine count little. Prints medians."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy
import onnx
import openvino
import torch
from torchvision.models import detection

BIN = Path(os.environ.get("RETINA_BUILD", Path(__file__).resolve().parents[3] / "build")).resolve() / "bin"
SIZES = {  # as train/recipes.cpp; the last number: anchors a location
    "nano": ("mobilenet_v3_large", 64, 2, 320, 533, 1),
    "nano-nine-anchors": ("mobilenet_v3_large", 64, 2, 320, 533, 9),
    "tiny": ("resnet18", 64, 2, 320, 533, 9),
    "small": ("regnet_x_1_6gf", 128, 3, 512, 853, 9),
    "medium": ("resnet50", 256, 4, 800, 1333, 9),
    "large": ("resnext101_64x4d", 256, 4, 800, 1333, 9),
}
PEERS = {"ssdlite320_mobilenet_v3_large": 320, "retinanet_resnet50_fpn": 800}


def run(program, *words):
    done = subprocess.run([str(BIN / program), *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")


def convert(folder, name, data):
    """The files of 32 and 8 bits, and the number of parameters."""
    backbone, channels, convs, least, most, anchors = SIZES[name]
    checkpoint = folder / f"{name}.pt"
    run("make-checkpoint", "--output", checkpoint, "--classes", 80, "--backbone", backbone, "--fpn-channels",
        channels, "--head-convs", convs, "--anchors-per-location", anchors, "--min-side", least, "--max-side", most)
    files = {}
    for weights in ("f32", "int8"):
        files[weights] = folder / f"{name}-{weights}.onnx"
        run("retina-convert", "--checkpoint", checkpoint, "--output", files[weights],
            "--weights", weights if weights == "f32" else "int8,calibration=4",
            "--onnx-static", f"{least}x{least}", "--data", data, "--verification-images", 1)
    state = torch.load(checkpoint, weights_only=True)["model"]
    count = sum(tensor.numel() for key, tensor in state.items()
                if "running_" not in key and "num_batches" not in key)
    return files, count


def multiplications(path):
    """Of the convolutions of one image."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(str(path)), data_prop=True).graph
    sides = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.value_info}
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":
            height, width = sides[node.output[0]][2:]
            assert height and width, node.name
            total += height * width * int(numpy.prod(shapes[node.input[1]]))
    return total


def compiled(path):
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    return openvino.Core().compile_model(path, "CPU", settings)


def ours(path, side):
    image = numpy.random.RandomState(1).randint(0, 256, (1, 3, side, side), dtype=numpy.uint8)
    model = compiled(path)
    return lambda: model([image])


def theirs(folder, name, side):
    """In PyTorch, and in OpenVINO where its exporter and OpenVINO take it."""
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=81).eval()
    image = torch.rand(3, side, side, generator=torch.Generator().manual_seed(1))

    @torch.inference_mode()
    def eager():
        return model([image])

    calls = {f"{name} PyTorch": eager}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, ([image],), str(folder / f"{name}.onnx"), opset_version=17, dynamo=False)
        exported = compiled(folder / f"{name}.onnx")
        inputs = [image.numpy()]
        calls[f"{name} OpenVINO"] = lambda: exported(inputs)
        exported(inputs)
    except Exception as error:  # noqa: BLE001: the exporter's and the runtime's own
        print(f"{name}: not in OpenVINO: {str(error).splitlines()[0][:160]}", file=sys.stderr)
        calls.pop(f"{name} OpenVINO", None)
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls, facts = {}, {}
        for size in options.sizes.split(","):
            files, parameters = convert(folder, size, options.data)
            facts[size] = (f"{parameters / 1e6:.1f} M parameters, {multiplications(files['f32']) / 1e9:.2f} G "
                           "multiplications, " +
                           ", ".join(f"{key} {path.stat().st_size / 1e6:.1f} MB" for key, path in files.items()))
            for key, path in files.items():
                calls[f"{size} {key}"] = ours(path, SIZES[size][3])
        for peer, side in ({} if options.no_peers else PEERS).items():
            calls |= theirs(folder, peer, side)
        times = {key: [] for key in calls}
        for call in calls.values():
            call()
        for _ in range(options.rounds):
            for key, call in calls.items():
                start = time.process_time()
                call()
                times[key].append(time.process_time() - start)
        for size, text in facts.items():
            print(f"{size}: {text}")
        for key, seconds in times.items():
            print(f"{key:<44}{statistics.median(seconds) * 1e3:>10.1f} ms, least {min(seconds) * 1e3:.1f}")


if __name__ == "__main__":
    main()
