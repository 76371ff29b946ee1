#!/usr/bin/env python3
"""Converted ONNX models beside each other on the CPU: size, and latency in ONNX Runtime and in OpenVINO.

    python3 tests/bench/infer/onnx_files.py f32.onnx int8.onnx [...] --photograph P.jpg [--rounds 15] [--batch 1]

This Python needs numpy, onnxruntime, openvino and pillow. The first file is what the others are compared with. Rounds
are taken in turns, with the runtime's own number of threads; prints medians and the median of the ratios."""

import argparse
import statistics
import time
from pathlib import Path


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


def onnx_runtime(path, images):
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"images": images})


def openvino(path, images):
    import openvino
    # As retina-eval asks: a rounded model's other values stay f32.
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda: compiled([images])


def main():
    import numpy
    from PIL import Image
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--photograph", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    image = numpy.array(Image.open(options.photograph).convert("RGB")).transpose(2, 0, 1)
    images = numpy.repeat(image[None], options.batch, 0)
    first = options.models[0]
    for runtime, opened in (("ONNX Runtime", onnx_runtime), ("OpenVINO", openvino)):
        times = in_turns({path: opened(path, images) for path in options.models}, options.rounds)
        for path in options.models:
            print(f"{runtime:12} {path.name}: {path.stat().st_size / 1e6:.1f} MB, "
                  f"{1e3 * statistics.median(times[path]):.1f} ms, {ratio(times, path, first):.3f} of {first.name}'s",
                  flush=True)


if __name__ == "__main__":
    main()
