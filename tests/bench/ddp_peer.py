"""Python's DistributedDataParallel over gloo as the peer of retina-train in overlap.py: torchvision's
RetinaNet with a ResNet-18, SGD, the same image and batch sizes. One process a rank, found through RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them. Rank 0 prints one line of JSON: for
each step its time, and what of the reduction was left when the last gradient was there."""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.retinanet import RetinaNetHead
from torchvision.ops.feature_pyramid_network import LastLevelP6P7


def model(side_px):
    """As retina-train --backbone resnet18 from scratch: GroupNorm heads, P6 from C5, 80 classes."""
    backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5,
                                   norm_layer=torch.nn.BatchNorm2d, returned_layers=[2, 3, 4],
                                   extra_blocks=LastLevelP6P7(512, 256))
    net = RetinaNet(backbone, 80, min_size=side_px, max_size=side_px)
    net.head = RetinaNetHead(256, 9, 80, norm_layer=lambda c: torch.nn.GroupNorm(32, c))
    return net.to(memory_format=torch.channels_last)


def batch(images, side_px, generator):
    batch_images = [torch.rand(3, side_px, side_px, generator=generator) for _ in range(images)]
    targets = []
    for _ in range(images):
        corner = torch.rand(8, 2, generator=generator) * side_px * 0.6
        size = 8 + torch.rand(8, 2, generator=generator) * side_px * 0.3
        targets.append({"boxes": torch.cat([corner, corner + size], 1),
                        "labels": torch.randint(80, (8,), generator=generator)})
    return batch_images, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=2, help="a rank")
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    net = model(options.side)
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, weight_decay=1e-4, fused=True)
    # One backward, no parameter unused, gradients as views of the buckets: DDP at its best.
    ddp = DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    last_gradient = [0.0]

    def note(_):
        last_gradient[0] = time.perf_counter()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(note)
    generator = torch.Generator().manual_seed(dist.get_rank())
    steps = []
    for _ in range(options.steps):
        batch_images, targets = batch(options.images, options.side, generator)
        began = time.perf_counter()
        losses = ddp(batch_images, targets)
        sum(losses.values()).backward()
        reduced = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad()
        steps.append({"step_ms": (time.perf_counter() - began) * 1e3,
                      "exposed_ms": (reduced - last_gradient[0]) * 1e3})
    if dist.get_rank() == 0:
        print(json.dumps({"parameters": sum(p.numel() for p in parameters), "steps": steps,
                          "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
