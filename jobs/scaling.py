"""Shows how training scales: python3 jobs/scaling.py RUN RUN...

The runs are retina-train's on 1, 2, 4, ... ranks, with as many images per rank. Prints, for each, images/s, the
efficiency (images/s per rank over the first run's), and the parts of the median step: what the slowest rank takes
for itself, and the wait for gradients. The first two steps, while caches fill, do not count.
"""
import json
import statistics
import sys
from pathlib import Path


def measured(run):
    """Returns ranks, images/s, and the milliseconds of a step: in all, and of the slowest rank without its waits."""
    lines = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line][2:]
    times = [line["rank_times"] for line in lines if line.get("rank_times")]
    if not steps or not times:
        sys.exit(f"{run}: too few steps to measure (want three, and the end of the run)")
    step_ms = statistics.median(step["step_ms"] for step in steps)
    images = statistics.mean(step["images"] for step in steps)
    own_ms = max(rank["compute_ms"] + rank["data_wait_ms"] for rank in times[-1])
    return steps[-1]["ranks"], images / step_ms * 1e3, step_ms, min(own_ms, step_ms)


def main(runs):
    if not runs or runs[0].startswith("-"):
        sys.exit(__doc__)
    rows = sorted(measured(run) for run in runs)
    print(f"{'ranks':>5} {'images/s':>10} {'efficiency':>10} {'step ms':>9} {'own ms':>9} {'gradients ms':>12}")
    for ranks, rate, step_ms, own_ms in rows:
        efficiency = rate / ranks / (rows[0][1] / rows[0][0])
        print(f"{ranks:5} {rate:10.2f} {efficiency:10.1%} {step_ms:9.1f} {own_ms:9.1f} {step_ms - own_ms:12.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
