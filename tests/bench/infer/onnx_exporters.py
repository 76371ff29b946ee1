#!/usr/bin/env python3
"""From a JPEG to boxes on the CPU: our ONNX model, f32 and int8, in ONNX Runtime and OpenVINO, beside torchvision's
RetinaNet of the same weights in PyTorch and as its own exporter writes it, in ONNX Runtime.

    python3 tests/bench/infer/onnx_exporters.py [BUILD] [--rounds 7] [--side 480] [--batches 1,8] [--threads 2]

This Python needs torch, torchvision, onnx, onnxruntime, openvino and Pillow. torchvision's v1 with ResNet-50 and random
weights that are scaled as a trained network's are (tests/oracle/inference_model_equals_torchvision.py). Ours takes
uint8 images, theirs floats. Rounds are taken in turns; prints nodes, sizes, medians, and medians of the ratios."""

import argparse
import io
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "oracle"))

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import openvino  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402

import inference_model_equals_torchvision as scaled  # noqa: E402


def in_turns(calls, rounds):
    """Seconds of each call of each name: {name: [seconds]}. Each is called once before, untimed."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.monotonic()
            call()
            times[name].append(time.monotonic() - start)
    return times


def ratio(times, name, to):
    return statistics.median(a / b for a, b in zip(times[name], times[to]))


def decoded(jpeg):
    """uint8 [3, H, W]"""
    return numpy.array(Image.open(io.BytesIO(jpeg)).convert("RGB")).transpose(2, 0, 1)


def onnx_runtime(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def open_vino(path, threads):
    compiled = openvino.Core().compile_model(path, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads})
    return lambda inputs: list(compiled(inputs).values())


def callers(folder, checkpoint, jpeg, count, threads):
    """{name: a call that goes from `count` JPEGs to boxes}; each image of torchvision's export is an input."""
    eager = scaled.torchvision_model(checkpoint)
    image = torch.from_numpy(decoded(jpeg)) / 255
    names = [f"image {place}" for place in range(count)]
    export = folder / f"torchvision-{count}.onnx"
    torch.onnx.export(eager, ([image] * count,), export, opset_version=17, dynamo=False, input_names=names)
    theirs = onnx_runtime(export, threads)

    def floats():
        return [decoded(jpeg).astype(numpy.float32) / 255 for _ in range(count)]

    def in_pytorch():
        with torch.inference_mode():
            return eager([torch.from_numpy(one) for one in floats()])

    def ours(run):
        return lambda: run({"images": numpy.stack([decoded(jpeg) for _ in range(count)])})

    calls = {"torchvision, PyTorch": in_pytorch,
             "torchvision, ONNX Runtime": lambda: theirs(dict(zip(names, floats())))}
    for weights in ("f32", "int8"):
        path = folder / f"{weights}.onnx"
        calls[f"{weights}, ONNX Runtime"] = ours(onnx_runtime(path, threads))
        calls[f"{weights}, OpenVINO"] = ours(open_vino(path, threads))
    return calls, export


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?", default=HERE.parents[2] / "build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--side", type=int, default=480)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    scaled.MIN_SIDE, scaled.MAX_SIDE = options.side, options.side * 5 // 3
    programs = options.build.resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with torch.no_grad():
            checkpoint, images, instances = scaled.imported_checkpoint(programs, folder)
        scaled.run(programs / "coco-pack", "--annotations", folder / "instances.json", "--images", images,
                   "--output", folder / "shards")
        for weights in ("f32", "int8"):
            scaled.run(programs / "retina-convert", "--checkpoint", checkpoint, "--output",
                       folder / f"{weights}.onnx", "--weights", weights if weights == "f32" else "int8,calibration=20", "--data", folder / "shards",
                       "--verification-images", "1")
        jpeg = (images / instances["images"][0]["file_name"]).read_bytes()
        for count in map(int, options.batches.split(",")):
            calls, export = callers(folder, checkpoint, jpeg, count, options.threads)
            for path in (folder / "f32.onnx", folder / "int8.onnx", export):
                print(f"{path.name}: {len(onnx.load(path).graph.node)} nodes, {path.stat().st_size / 1e6:.1f} MB")
            times = in_turns(calls, options.rounds)
            for who in calls:
                print(f"batch {count}, {who:26}{1e3 * statistics.median(times[who]):8.0f} ms; of torchvision in "
                      f"PyTorch {ratio(times, who, 'torchvision, PyTorch'):.3f}, of its export "
                      f"{ratio(times, who, 'torchvision, ONNX Runtime'):.3f}", flush=True)


if __name__ == "__main__":
    main()
