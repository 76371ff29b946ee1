#!/usr/bin/env python3
"""A large JPEG to boxes by tiles: retina-eval --tile beside a loop of Pillow's crops and torchvision's
RetinaNet, the same weights and tiles, in turns.

    python3 tests/bench/infer/tiles.py [--backbone resnet50] [--image 3000 2000] [--tile 800] [--rounds 5]
        [--model checkpoint|bf16|onnx|int8]

This Python needs torch, torchvision and Pillow. Ours is the whole program, its start included; the loop's
clock runs from opening the file to the merged boxes, without imports and the model's loading. --model: what
retina-eval reads, a checkpoint (bf16: computed with --precision bf16) or what retina-convert makes of it (bf16
and int8 are not the loop's arithmetic: how far int8's AP is from f32's is for retina-convert to say). Prints a line of JSON a round and the medians."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from infer import BIN, CLASSES, HERE, run


def starts(length, side, overlap):
    stride = side - round(side * overlap)
    found = [0]
    while length - found[-1] > side:
        found.append(min(length - side, found[-1] + stride))
    return found


def tiles_of(width, height, side, overlap):
    return [(x, y, x + min(side, width), y + min(side, height))
            for y in starts(height, side, overlap) for x in starts(width, side, overlap)]


def peer(options):
    """The loop, in a process of its own. Prints a line of JSON."""
    import torch
    from PIL import Image
    from torchvision.ops import batched_nms
    from torchvision.transforms.functional import pil_to_tensor
    sys.path.insert(0, str(HERE.parent / "train"))
    from peer import make_model
    Image.MAX_IMAGE_PIXELS = None
    torch.set_num_threads(options.threads)
    model = make_model(options, CLASSES)
    model.load_state_dict(torch.load(options.weights))
    model.eval()
    start = time.perf_counter()
    image = Image.open(options.file).convert("RGB")
    boxes, scores, labels = [], [], []
    tiles = tiles_of(*image.size, options.tile, options.overlap)
    with torch.no_grad():
        for tile in tiles:
            found = model([pil_to_tensor(image.crop(tile)).float().div(255)])[0]
            boxes.append(found["boxes"] + torch.tensor([*tile[:2], *tile[:2]]))
            scores.append(found["scores"])
            labels.append(found["labels"])
    batched_nms(torch.cat(boxes), torch.cat(scores), torch.cat(labels), .5)
    print(json.dumps({"tiles_per_second": len(tiles) / (time.perf_counter() - start)}))


def convert(folder, options):
    """first.pt to first.onnx, calibrated by tiles of the image."""
    width, height = options.image
    large = json.loads((folder / "boxes.json").read_text())
    large["images"] = [{"id": 1, "file_name": "large.jpg", "width": width, "height": height}]
    large["annotations"] = [{"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "area": 1e4, "bbox": [9, 9, 100, 100]}]
    (folder / "large.json").write_text(json.dumps(large))
    run(BIN / "coco-pack", "--annotations", folder / "large.json", "--images", folder, "--output", folder / "tiles",
        "--tile", options.tile)
    weights = ["int8", "--calibration-images", 4] if options.model == "int8" else ["f32"]
    run(BIN / "retina-convert", "--checkpoint", folder / "first.pt", "--output", folder / "first.onnx", "--data",
        folder / "tiles", "--verification-images", 1, "--weights", *weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--norm", default="batch")
    parser.add_argument("--image", type=int, nargs=2, default=[3000, 2000], metavar=("W", "H"))
    parser.add_argument("--tile", type=int, default=800)
    parser.add_argument("--overlap", type=float, default=.2)
    parser.add_argument("--model", default="checkpoint", choices=["checkpoint", "bf16", "onnx", "int8"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--min-side", type=int, help="the tile's side")
    parser.add_argument("--max-side", type=int, help="the tile's side")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.min_side = options.max_side = options.tile
    if options.file:
        peer(options)
        return
    from PIL import Image
    sides = ["--min-side", options.tile, "--max-side", options.tile]
    same = ["--backbone", options.backbone, "--tile", options.tile, "--overlap", options.overlap,
            "--threads", options.threads]
    results = {"ours": [], "theirs": []}
    count = len(tiles_of(*options.image, options.tile, options.overlap))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        noise = Image.effect_noise((options.image[0] // 8, options.image[1] // 8), 60)
        noise.resize(options.image).convert("RGB").save(folder / "large.jpg")
        (folder / "boxes.json").write_text(json.dumps({
            "images": [], "annotations": [],
            "categories": [{"id": i, "name": f"class {i}"} for i in range(1, CLASSES + 1)]}))
        (folder / "jpeg").mkdir()
        run(sys.executable, HERE.parent / "train" / "peer.py", "--data", folder, "--weights",
            folder / "first.pth", "--backbone", options.backbone, *sides, "--write-weights")
        run(BIN / "retina-convert", "--import", folder / "first.pth", "--output", folder / "first.pt",
            "--categories", folder / "boxes.json", *sides)
        model = folder / "first.pt"
        precision = ["--precision", "bf16"] if options.model == "bf16" else []
        if options.model in ("onnx", "int8"):
            model = folder / "first.onnx"
            convert(folder, options)
        for number in range(options.rounds):
            start = time.perf_counter()
            run(BIN / "retina-eval", "--model", model, "--images", folder / "large.jpg",
                "--output", folder / "found", "--overwrite", "--device", "cpu", "--tile",
                f"{options.tile},overlap={options.overlap},whole=off", "--compute-threads",
                options.threads, *precision)
            mine = {"tiles_per_second": count / (time.perf_counter() - start)}
            other = json.loads(run(sys.executable, __file__, *same, "--file", folder / "large.jpg",
                                   "--weights", folder / "first.pth"))
            for name, one in (("ours", mine), ("theirs", other)):
                results[name].append(one["tiles_per_second"])
                print(json.dumps({"who": name, "round": number + 1} | one), flush=True)
    mine, other = (statistics.median(results[who]) for who in ("ours", "theirs"))
    print(f"{options.backbone}, {options.model}, {count} tiles of {options.tile} px, {options.threads} threads: medians of "
          f"{options.rounds} rounds: {mine:.2f} and {other:.2f} tiles/s, ratio {mine / other:.2f}")


if __name__ == "__main__":
    main()
