#!/usr/bin/env python3
"""Our ONNX model beside what torchvision's own exporter writes of the same weights, both in ONNX Runtime on the CPU.

    python3 tests/bench/infer/onnx_exporters.py [BUILD] [--rounds 5] [--side 480] [--batches 1,8]

This Python needs torch, torchvision, onnx and onnxruntime. torchvision's v1 with ResNet-50 and random weights that are
scaled as a trained network's are (tests/oracle/inference_model_equals_torchvision.py). Ours takes uint8 pictures, theirs
floats. Rounds are taken in turns; prints nodes, size, the median time of a call and ours over theirs."""

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "oracle"))

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402

import inference_model_equals_torchvision as scaled  # noqa: E402
from onnx_files import in_turns, ratio  # noqa: E402


def export_torchvision(checkpoint, path, picture, count):
    """Each picture of a batch is an input of its own."""
    model = scaled.torchvision_model(checkpoint)
    names = [f"image {place}" for place in range(count)]
    torch.onnx.export(model, ([picture] * count,), path, opset_version=17, dynamo=False, input_names=names)
    return dict.fromkeys(names, picture.numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, nargs="?", default=HERE.parents[2] / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=480)
    parser.add_argument("--batches", default="1,8")
    options = parser.parse_args()
    scaled.MIN_SIDE, scaled.MAX_SIDE = options.side, options.side * 5 // 3
    programs = options.build.resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with torch.no_grad():
            checkpoint, images, instances = scaled.imported_checkpoint(programs, folder)
        scaled.run(programs / "retina-convert", "--checkpoint", checkpoint, "--output", folder / "ours.onnx",
                   "--proof-images", "1")
        pixels = scaled.pixels_of(images, instances["images"][0])
        picture = pixels / 255
        for count in map(int, options.batches.split(",")):
            inputs = {"ours": {"images": numpy.repeat(pixels[None].numpy(), count, 0)},
                      "torchvision": export_torchvision(checkpoint, folder / "torchvision.onnx", picture, count)}
            files = {who: folder / f"{who}.onnx" for who in inputs}
            sessions = {who: onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                        for who, path in files.items()}
            found = {who: sessions[who].run(None, inputs[who]) for who in inputs}
            ours, theirs = int(found["ours"][3][0]), len(found["torchvision"][0])
            times = in_turns({who: partial(session.run, None, inputs[who]) for who, session in sessions.items()},
                             options.rounds)
            for who, path in files.items():
                nodes = len(onnx.load(path).graph.node)
                print(f"{who:12} batch {count}: {nodes} nodes, {path.stat().st_size / 1e6:.1f} MB, "
                      f"{1e3 * statistics.median(times[who]):.0f} ms", flush=True)
            print(f"batch {count}: ours / torchvision {ratio(times, 'ours', 'torchvision'):.3f}; "
                  f"detections on the first picture {ours}, {theirs}", flush=True)


if __name__ == "__main__":
    main()
