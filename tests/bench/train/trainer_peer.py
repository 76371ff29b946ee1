"""torchvision's RetinaNet trained on a folder in COCO's layout for a number of seconds or steps, as its
reference scripts do it: DataLoader, mirror, SGD, warm-up, on a GPU autocast. Then writes what it finds on the
validation images as COCO results, and prints one line of JSON. tests/gpu/measure.py and outcome.py run it."""

import argparse
import json
import math
import resource
import time
from pathlib import Path

import torch
import torchvision
from torchvision.transforms.v2 import functional

from peer import make_model

WARM_UP_STEPS = 100


class Images(torch.utils.data.Dataset):
    """(image u8 [3, H, W], target or None, image id)."""

    def __init__(self, data, split, trains):
        annotations = json.loads((data / f"annotations/instances_{split}2017.json").read_text())
        self.folder, self.trains = data / f"images/{split}2017", trains
        self.labels = {category["id"]: i for i, category in enumerate(annotations["categories"])}
        boxes = {}
        for box in annotations["annotations"]:
            if box["bbox"][2] > 0 and box["bbox"][3] > 0 and not box["iscrowd"]:
                boxes.setdefault(box["image_id"], []).append(box)
        self.images = [(image, boxes.get(image["id"], [])) for image in annotations["images"]]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, place):
        image, boxes = self.images[place]
        pixels = torchvision.io.decode_jpeg(
            torchvision.io.read_file(str(self.folder / image["file_name"])), torchvision.io.ImageReadMode.RGB)
        if not self.trains:
            return pixels, None, image["id"]
        xywh = torch.tensor([box["bbox"] for box in boxes], dtype=torch.float64).reshape(-1, 4)
        xyxy = torch.cat([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], 1).float()
        if torch.rand(()) < 0.5:
            pixels = functional.horizontal_flip(pixels)
            xyxy[:, [0, 2]] = image["width"] - xyxy[:, [2, 0]]
        labels = torch.tensor([self.labels[box["category_id"]] for box in boxes], dtype=torch.int64)
        return pixels, {"boxes": xyxy, "labels": labels}, image["id"]


def loader(options, split, trains):
    return torch.utils.data.DataLoader(
        Images(options.data, split, trains), options.images, shuffle=trains, drop_last=trains,
        num_workers=options.threads, collate_fn=lambda batch: tuple(zip(*batch)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--norm", default="batch")
    parser.add_argument("--fpn-channels", type=int, default=256)
    parser.add_argument("--head-convs", type=int, default=4)
    parser.add_argument("--min-side", type=int, required=True)
    parser.add_argument("--max-side", type=int, required=True)
    parser.add_argument("--images", type=int, default=16, help="of a step")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--steps", type=int, help="instead of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--clip-norm", type=float, default=10)
    parser.add_argument("--threads", type=int, default=2, help="worker processes of the loader")
    parser.add_argument("--compute-threads", type=int, help="without it, PyTorch's own number")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.compute_threads:
        torch.set_num_threads(options.compute_threads)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    train = loader(options, "train", True)
    categories = {place: id for id, place in train.dataset.labels.items()}
    model = make_model(options, len(categories), options.fpn_channels, options.head_convs).to(device).train()
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4)
    begin, step = time.perf_counter(), 0

    def done():
        if options.steps:
            return step / options.steps
        return min(1.0, (time.perf_counter() - begin) / options.seconds)

    while done() < 1:
        for images, targets, _ in train:
            if done() >= 1:
                break
            # Cosine over the time or steps that there are.
            rate = options.lr * min(1, (step + 1) / WARM_UP_STEPS) * (1 + math.cos(math.pi * done())) / 2
            for group in optimizer.param_groups:
                group["lr"] = rate
            images = [image.to(device, non_blocking=True).float().div(255) for image in images]
            targets = [{name: value.to(device) for name, value in target.items()} for target in targets]
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = sum(model(images, targets).values())
            if not torch.isfinite(loss):
                raise SystemExit(f"the loss is {loss.item()} at step {step + 1}")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
            optimizer.step()
            step += 1
    seconds = time.perf_counter() - begin
    model.eval()
    results = []
    for images, _, ids in loader(options, "val", False):
        with torch.no_grad():
            found = model([image.to(device).float().div(255) for image in images])
        for one, image_id in zip(found, ids):
            for (x1, y1, x2, y2), score, label in zip(one["boxes"].tolist(), one["scores"].tolist(),
                                                      one["labels"].tolist()):
                results.append({"image_id": image_id, "category_id": categories[label], "score": score,
                                "bbox": [x1, y1, x2 - x1, y2 - y1]})
    options.results.write_text(json.dumps(results))
    print(json.dumps({"steps": step, "seconds": seconds, "images_per_second": step * options.images / seconds,
                      "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))


if __name__ == "__main__":
    main()
