#!/usr/bin/env python3
"""A classifier's figures against torch, on fresh random logits.

    python3 tests/oracle/classification_metrics.py BUILD_DIR
Top-k as torchvision's references/classification `accuracy` counts it, by torch.topk; cross-entropy
by torch.nn.functional; confusion matrix, recall, precision, F1, balanced accuracy and calibration
error computed with torch in f64. Where scores are equal torch.topk promises no order: those sets
are compared with a stable sort, which has the lower label first.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

TOLERANCE = 1e-10  # cross-entropy of f32 logits in f64
BINS = 15


def random_set(generator, images, classes, levels):
    """Logits [N, K] f32 and labels [N]; with `levels` only so many different scores."""
    labels = torch.randint(classes, (images,), generator=generator)
    if levels:
        logits = torch.randint(levels, (images, classes), generator=generator).float()
    else:
        logits = 3 * torch.randn(images, classes, generator=generator)
    logits[torch.arange(images), labels] += 2 * (torch.rand(images, generator=generator) < .5).float()
    return logits, labels


def best_labels(logits, labels_count, ties):
    if ties:
        return torch.sort(logits, dim=1, descending=True, stable=True).indices[:, :labels_count]
    return logits.topk(labels_count, 1, True, True).indices


def accuracy(best, labels, k):
    """torchvision's: the share of images whose class is among the first k."""
    return best.t().eq(labels[None])[:k].flatten().double().sum().item() / len(labels)


def reference(logits, labels, ties):
    images, classes = logits.shape
    k = min(5, classes)
    best = best_labels(logits, k, ties)
    predicted = best[:, 0]
    confusion = torch.bincount(labels * classes + predicted, minlength=classes ** 2).reshape(classes, classes)
    hits, truth, found = confusion.diagonal().double(), confusion.sum(1).double(), confusion.sum(0).double()
    recall, precision, f1 = hits / truth, hits / found, 2 * hits / (truth + found)
    probabilities = torch.softmax(logits.double(), 1)
    confidence, right = probabilities.max(1).values, (predicted == labels).double()
    ends = torch.arange(BINS + 1, dtype=torch.float64) / BINS
    error = 0.0
    for low, high in zip(ends, ends[1:]):  # Guo et al. 2017: (low, high]
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.double().mean().item() * abs(
                confidence[inside].mean().item() - right[inside].mean().item())
    return {
        "top1": accuracy(best, labels, 1), "top5": accuracy(best, labels, k),
        "loss": torch.nn.functional.cross_entropy(logits.double(), labels).item(),
        "losses": torch.nn.functional.cross_entropy(logits.double(), labels, reduction="none"),
        "balanced_accuracy": recall[truth > 0].mean().item(), "error": error,
        "confusion": {(t + 1, p + 1, confusion[t, p].item()) for t, p in confusion.nonzero().tolist()},
        "recall": recall, "precision": precision, "f1": f1, "best": best + 1,
        "probabilities": probabilities.gather(1, best)}


def ours(build, folder, logits, labels):
    (folder / "scores.f32").write_bytes(logits.contiguous().numpy().tobytes())
    (folder / "labels.i32").write_bytes(labels.int().numpy().tobytes())
    subprocess.run([build / "bin/score_classifier", folder], check=True)
    return (json.loads((folder / "metrics.json").read_text()),
            [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()])


def differences(metrics, predictions, wanted):
    for key in ("top1", "top5", "loss", "balanced_accuracy"):
        yield metrics[key] - wanted[key]
    yield metrics["calibration"]["error"] - wanted["error"]
    for place, one in enumerate(metrics["per_class"]):
        for key in ("recall", "precision", "f1"):
            value = wanted[key][place].item()
            assert (one[key] is None) == (value != value), (place, key)
            yield 0 if one[key] is None else one[key] - value
    for place, one in enumerate(predictions):
        yield one["loss"] - wanted["losses"][place].item()
        assert [label for label, _ in one["top5"]] == wanted["best"][place].tolist(), place
        for (_, ours_), theirs in zip(one["top5"], wanted["probabilities"][place].tolist(), strict=True):
            yield ours_ - theirs


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    generator = torch.Generator().manual_seed(seed)
    worst, count = 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        for images, classes in ((1, 1), (40, 1), (300, 2), (300, 3), (500, 10), (1000, 100), (400, 1000)):
            for levels in (0, 2, 5):
                logits, labels = random_set(generator, images, classes, levels)
                metrics, predictions = ours(build, pathlib.Path(name), logits, labels)
                wanted = reference(logits, labels, levels > 0)
                assert {tuple(cell) for cell in metrics["confusion"]} == wanted["confusion"]
                differing = max(abs(one) for one in differences(metrics, predictions, wanted))
                assert differing <= TOLERANCE, f"{classes} classes, {levels} levels: differs by {differing}"
                worst = max(worst, differing)
                count += 1
    print(f"classification_metrics: {count} sets, largest difference {worst:.1e}")


if __name__ == "__main__":
    main()
