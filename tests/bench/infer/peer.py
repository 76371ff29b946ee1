"""torchvision's RetinaNet on the photographs of infer.py: JPEG bytes to boxes, one after the other and in
batches. Prints one line of JSON."""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
from torchvision.io import ImageReadMode, decode_jpeg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "train"))
from peer import make_model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photographs", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--norm", default="batch")
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--min-side", type=int, required=True)
    parser.add_argument("--max-side", type=int, required=True)
    parser.add_argument("--images-per-batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--amp", action="store_true", help="bf16 autocast, channels_last")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = make_model(options, options.classes)
    model.load_state_dict(torch.load(options.weights))
    model.to(options.device).eval()
    if options.amp:
        model.to(memory_format=torch.channels_last)
    files = [torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
             for path in sorted(options.photographs.iterdir())]

    def detect(batch):
        images = [decode_jpeg(data, ImageReadMode.RGB).to(options.device).float().div(255)
                  for data in batch]
        with torch.no_grad(), torch.autocast(options.device, torch.bfloat16, enabled=options.amp):
            found = model(images)
        return [{name: value.cpu() for name, value in one.items()} for one in found]

    detect(files[:1])
    milliseconds, boxes = [], 0
    for data in files:
        start = time.perf_counter()
        boxes += len(detect([data])[0]["scores"])
        milliseconds.append((time.perf_counter() - start) * 1e3)
    start = time.perf_counter()
    for first in range(0, len(files), options.images_per_batch):
        detect(files[first:first + options.images_per_batch])
    print(json.dumps({"ms_per_image": statistics.median(milliseconds),
                      "images_per_second": len(files) / (time.perf_counter() - start), "boxes": boxes,
                      "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
