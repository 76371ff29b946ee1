"""What interruption costs, with ResNet-50 on one rank: from the start command to the beginning of
the first step after a kill -9, and what saving costs at the interval that `auto` chooses. Prints a
JSON line each.

    tests/bench/restart.py [--build build] [--repeats 5] [--steps 6] [-- more options of retina-train]
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def command(arguments, run, steps):
    return [str(Path(arguments.build) / "bin/retina-train"), "--synthetic", "64", "--output", str(run),
            "--steps", str(steps), "--images-per-step", "1", "--device", "cpu", "--log-level", "debug",
            *arguments.more]


def until_step(words, log, step):
    """Starts the command; returns it and the seconds until `step` began, as its log tells."""
    start = time.monotonic()
    with log.open("wb") as out:
        job = subprocess.Popen(words, stdout=out, stderr=out)
    while f"debug: step {step}: images" not in log.read_text(errors="replace"):
        if job.poll() is not None:
            raise SystemExit(log.read_text(errors="replace"))
        time.sleep(0.01)
    return job, time.monotonic() - start


def saved_step(run):
    books = run / "checkpoints.json"
    return json.loads(books.read_text())["checkpoints"][-1]["step"] if books.exists() else 0


def restarts(arguments, folder):
    run, log, seconds = folder / "run", folder / "log", []
    words = command(arguments, run, 100000) + ["--checkpoint-every", "2steps"]
    job, _ = until_step(words, log, 1)
    for _ in range(arguments.repeats):
        before = saved_step(run)
        while saved_step(run) == before:
            if job.poll() is not None:
                raise SystemExit(log.read_text(errors="replace"))
            time.sleep(0.05)
        job.send_signal(signal.SIGKILL)
        job.wait()
        job, took = until_step(words, log, saved_step(run) + 1)
        seconds.append(took)
    job.kill()
    job.wait()
    return seconds


def stall(arguments, folder):
    """What the program measured itself and chose from it, and what a copy took."""
    run = folder / "auto"
    words = command(arguments, run, arguments.steps) + ["--checkpoint-every", "auto,mtbf=4h"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stderr
    interval_s, lost_s = map(float, re.findall(r"checkpoint interval ([0-9.]+) s: each stalls training for ([0-9.]+)",
                                               text)[-1])
    lines = (run / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step_ms"] for line in lines if '"step_ms"' in line]
    return {"interval_s": interval_s, "lost_s": lost_s, "share": lost_s / interval_s,
            "step_ms": statistics.median(steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("RETINA_BUILD", "build"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("more", nargs="*", default=[])
    arguments = parser.parse_args()
    version = subprocess.run([str(Path(arguments.build) / "bin/retina-train"), "--version"], check=True,
                             capture_output=True, text=True).stdout.splitlines()[0]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        seconds = restarts(arguments, Path(name))
        print(json.dumps({"bench": "restart", "median_s": statistics.median(seconds), "all_s": seconds,
                          "load": os.getloadavg()[0], "version": version}), flush=True)
        print(json.dumps({"bench": "checkpoint_auto", **stall(arguments, Path(name)),
                          "load": os.getloadavg()[0], "version": version}), flush=True)


if __name__ == "__main__":
    main()
