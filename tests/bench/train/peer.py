"""torchvision's RetinaNet on the images, boxes and first weights that train.py gives it, the same step as
retina-train's: forward, loss, backward, SGD. Prints one line of JSON a step."""

import argparse
import json
import resource
import time
from pathlib import Path

import torch
import torchvision
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7


def make_trunk(options, norm, width):
    """The network with its pyramid; with a frozen norm its first two stages do not learn."""
    network = getattr(torchvision.models, options.backbone)(weights=None, norm_layer=norm)
    extra = LastLevelP6P7(width, width)
    if options.backbone.startswith("mobilenet"):
        body = network.features
        levels, fixed = {"6": "0", "12": "1", "16": "2"}, body[:4]
    elif options.backbone.startswith("regnet"):
        body, stages = network, network.trunk_output
        levels = {f"trunk_output.block{stage}": str(stage - 2) for stage in (2, 3, 4)}
        fixed = torch.nn.ModuleList([network.stem, stages.block1])
    else:
        body, levels = network, {f"layer{stage}": str(stage - 2) for stage in (2, 3, 4)}
        fixed = torch.nn.ModuleList([network.conv1, network.bn1, network.layer1])
    if options.norm == "frozen":
        fixed.requires_grad_(False)
    getter = create_feature_extractor(body, levels)
    with torch.no_grad():
        features = getter.eval()(torch.zeros(1, 3, 64, 64))
    trunk = BackboneWithFPN(torch.nn.Module(), {}, [level.shape[1] for level in features.values()], width, extra)
    trunk.body = getter.train()
    return trunk


def make_model(options, classes, width=256, head_convs=4):
    trunk = make_trunk(options, FrozenBatchNorm2d if options.norm == "frozen" else torch.nn.BatchNorm2d, width)
    model = RetinaNet(trunk, classes, min_size=options.min_side, max_size=options.max_side)
    for head in (model.head.classification_head, model.head.regression_head):
        head.conv = head.conv[:head_convs]
    return model


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="what train.py made")
    parser.add_argument("--weights", type=Path, help="start from; or written by --write-weights")
    parser.add_argument("--write-weights", action="store_true", help="draw the weights, and end")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--norm", default="batch", choices=["batch", "frozen"],
                        help="frozen: with the first two stages, as its pre-trained recipe has it")
    parser.add_argument("--min-side", type=int, required=True)
    parser.add_argument("--max-side", type=int, required=True)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--amp", action="store_true", help="bf16 autocast, channels_last")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the backbone and head")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    data = json.loads((options.data / "boxes.json").read_text())
    classes = len(data["categories"])
    model = make_model(options, classes)
    if options.write_weights:
        torch.save(model.state_dict(), options.weights)
        return
    model.load_state_dict(torch.load(options.weights))
    device = torch.device(options.device)
    model.to(device).train()
    if options.amp:
        model.to(memory_format=torch.channels_last)
    if options.compile:
        model.backbone = torch.compile(model.backbone)
        model.head = torch.compile(model.head)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4)
    images, targets = [], []
    for image in data["images"]:
        pixels = torch.frombuffer(bytearray((options.data / "raw" / image["file_name"]).read_bytes()),
                                  dtype=torch.uint8)
        pixels = pixels.view(image["height"], image["width"], 3).permute(2, 0, 1).contiguous()
        images.append(pixels.float().div(255).to(device))
        boxes = [box for box in data["annotations"] if box["image_id"] == image["id"]]
        xywh = torch.tensor([box["bbox"] for box in boxes], dtype=torch.float64)
        xyxy = torch.cat([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], 1).float()
        targets.append({"boxes": xyxy.to(device),
                        "labels": torch.tensor([box["category_id"] - 1 for box in boxes]).to(device)})
    for step in range(options.steps):
        clock = [time.perf_counter()]

        def lap():
            synchronise(device)
            clock.append(time.perf_counter())
            return (clock[-1] - clock[-2]) * 1e3

        chosen = [(step * options.images + i) % len(images) for i in range(options.images)]
        batch, truth = model.transform([images[i] for i in chosen], [dict(targets[i]) for i in chosen])
        line = {"step": step + 1, "data_ms": lap()}
        with torch.autocast(device.type, torch.bfloat16, enabled=options.amp):
            pixels = batch.tensors
            if options.amp:
                pixels = pixels.contiguous(memory_format=torch.channels_last)
            features = list(model.backbone(pixels).values())
            outputs = model.head(features)
        anchors = model.anchor_generator(batch, features)
        line["forward_ms"] = lap()
        losses = model.compute_loss(truth, {name: value.float() for name, value in outputs.items()},
                                    anchors)
        loss = losses["classification"] + losses["bbox_regression"]
        line["loss_ms"] = lap()
        loss.backward()
        line["backward_ms"] = lap()
        optimizer.step()
        optimizer.zero_grad()
        line["update_ms"] = lap()
        line["step_ms"] = (clock[-1] - clock[0]) * 1e3
        line["loss"] = loss.item()
        line["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line["device_memory"] = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
