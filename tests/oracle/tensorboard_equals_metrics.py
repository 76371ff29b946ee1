"""TensorBoard's own reader shows the figures of metrics.jsonl and the images of report.html.

usage: tensorboard_equals_metrics.py BUILD_DIR

A detector and a classifier train with --tensorboard, are killed after steps that no checkpoint has,
their last event file ends in half a record, as a kill within a write leaves it, and they are
continued. EventAccumulator must then have each figure of each line once, as the nearest f32, and
nothing else.
"""
import base64
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEPS, EPOCH_STEPS, KILLED_AT = 11, 4, 6
SMALL = ["--backbone", "resnet18", "--compute-threads", "1", "--threads", "1", "--device", "cpu",
         "--images-per-step", "4", "--steps-per-epoch", str(EPOCH_STEPS), "--lr", "0.001",
         "--clip-norm", "10"]
STATS = ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR1", "AR10", "AR100",
         "AR_small", "AR_medium", "AR_large"]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def detector(programs, folder):
    scenes = folder / "scenes"
    run(programs / "render_scenes", "--output", scenes, "--train", 12, "--validation", 6, "--intact")
    for split in ("train", "val"):
        run(programs / "coco-pack", "--annotations", scenes / f"annotations/instances_{split}2017.json",
            "--images", scenes / f"images/{split}2017", "--output", folder / split)
    return folder / "train", folder / "val", ["--min-side", "64", "--max-side", "96"]


def classifier(programs, folder):
    run(programs / "render_classes", "--output", folder / "classes", "--train", 40, "--validation", 20)
    for split, images in (("train", "classes"), ("val", "classes/test_batch.bin")):
        run(programs / "coco-pack", "--format", "cifar10", "--images", folder / images, "--output",
            folder / split)
    return folder / "train", folder / "val", ["--task", "classify", "--min-side", "32", "--max-side", "32"]


def lines_of(output):
    path = output / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trained_with_a_kill(command, output, events):
    killed = subprocess.Popen([*command, "--steps", "100000"], stderr=subprocess.PIPE)
    while not any("loss" in line and line["step"] >= KILLED_AT for line in lines_of(output)):
        assert killed.poll() is None, killed.stderr.read().decode()
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    [file] = events.iterdir()
    start = file.read_bytes()
    file.write_bytes(start + start[:20])
    run(*command, "--steps", max(STEPS, lines_of(output)[-1]["step"] + 1))
    assert len(list(events.iterdir())) == 2


def metrics_of(line):
    """{tag: number} of a line, the tag without its group unless it is a validation's."""
    if "validation" in line:
        figures = dict(line["validation"])
        stats = figures.pop("stats", None)
        if stats is not None:
            named = [name for name in STATS if name in figures]
            assert named and all(figures[name] == stats[STATS.index(name)] for name in named), line
            figures |= dict(zip(STATS, stats, strict=True))
        return {f"validation/{name}": value for name, value in figures.items()}
    return {{"lr": "learning_rate"}.get(name, name): value for name, value in line.items() if name != "step"}


def expected(output):
    figures = {}
    for line in lines_of(output):
        if "rank_times" in line:
            continue
        for tag, value in metrics_of(line).items():
            figures.setdefault(tag, []).append((line["step"], float(numpy.float32(value))))
    return figures


def shown(accumulator):
    figures = {}
    for tag in accumulator.Tags()["scalars"]:
        group, name = tag.split("/")
        name = tag if group == "validation" else name
        assert name not in figures, f"{tag}: two tags of this name"
        figures[name] = [(event.step, event.value) for event in accumulator.Scalars(tag)]
    return figures


def compare_scalars(accumulator, output):
    ours, theirs = expected(output), shown(accumulator)
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for tag, points in ours.items():
        assert theirs[tag] == points, f"{tag}: {theirs[tag]}, in metrics.jsonl {points}"
    return len(ours), sum(len(points) for points in ours.values())


def compare_images(accumulator, output):
    page = (output / "report.html").read_text()
    validations = [line["step"] for line in lines_of(output) if "validation" in line]
    tags = accumulator.Tags()["images"]
    assert tags, "no images"
    for tag in tags:
        shown_images = accumulator.Images(tag)
        assert {shown.step for shown in shown_images} <= set(validations), tag
        for shown in shown_images:
            with Image.open(io.BytesIO(shown.encoded_image_string)) as image:
                image.load()
                assert image.size == (shown.width, shown.height), tag
            if shown.step == validations[-1]:
                assert base64.b64encode(shown.encoded_image_string).decode() in page, tag
    last = [tag for tag in tags if accumulator.Images(tag)[-1].step == validations[-1]]
    assert len(last) == page.count("data:image/jpeg;base64,"), "the page has other images"
    return len(tags)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve() / "bin"
    for make in (detector, classifier):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            train, validation, options = make(programs, folder)
            output, events = folder / "run", folder / "events"
            trained_with_a_kill([programs / "retina-train", "--train", train, "--validation", validation,
                                 "--output", output, "--tensorboard", events, *SMALL, *options],
                                output, events)
            accumulator = EventAccumulator(str(events), size_guidance={"scalars": 0, "images": 0})
            accumulator.Reload()
            tags, numbers = compare_scalars(accumulator, output)
            shown_images = compare_images(accumulator, output)
            print(f"{make.__name__}: {numbers} numbers under {tags} tags are those of metrics.jsonl, "
                  f"{shown_images} images", flush=True)


if __name__ == "__main__":
    main()
