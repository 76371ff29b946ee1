#!/usr/bin/env python3
"""A served model under load, over HTTP on this machine: requests/s, how long they take, how many are
refused, memory and the time to start.

    serve/bin/python tests/bench/serving/serving.py --repository served --photograph photo.jpg
        [--model coco_retinanet] [--clients 1 4 16 128] [--seconds 30]

This Python has jobs/serving/requirements.txt; the server runs on the GPU where there is one. The load
comes from hey (Debian's package): it posts a body from a file, needs little of the processor that it
shares with the server, and writes each request's time and status, so that quick refusals do not
improve the percentiles of the answers. Every request has one JPEG, and each client sends its next one
when it has its answer. Prints a JSON line a result and a table; exits with 1 if the server did
anything but what jobs/serving/README.md says.
"""
import argparse
import base64
import contextlib
import csv
import io
import json
import math
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from model_server import ModelServer  # noqa: E402

OK, BUSY = 200, 503
WARM_UP = 5


def percentile(values, percent):
    """The smallest value that so many percent of them do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def summary(text):
    """What hey's CSV says: answered requests a second, their times, the share of refused ones, and how
    many ended otherwise."""
    rows = [(float(row["response-time"]), int(row["status-code"]), float(row["offset"]))
            for row in csv.DictReader(io.StringIO(text))]
    times = [seconds for seconds, status, _ in rows if status == OK]
    if not times:
        raise SystemExit(f"hey: no request was answered (of {len(rows)}); see the server's log")
    end = max(offset + seconds for seconds, status, offset in rows if status == OK)
    return {"requests": len(rows), "answered_per_s": round(len(times) / end, 2),
            "p50_ms": round(1e3 * percentile(times, 50), 1),
            "p99_ms": round(1e3 * percentile(times, 99), 1),
            "refused": round(sum(status == BUSY for _, status, _ in rows) / len(rows), 4),
            "otherwise": sum(status not in (OK, BUSY) for _, status, _ in rows)}


class Health:
    """Asks again and again what a probe asks; the slowest answer, and those that were not 200."""

    def __init__(self, server, model):
        self.slowest_ms, self.failed, self._end = 0.0, [], threading.Event()
        # Not /v2/health/ready, which is 400 while any model is being loaded.
        self._paths = ["/v2/health/live", f"/v2/models/{model}/ready"]
        self._server, self._thread = server, threading.Thread(target=self._ask)

    def _ask(self):
        while not self._end.is_set():
            for path in self._paths:
                start = time.monotonic()
                try:
                    status = self._server.get(path)[0]
                except OSError as error:
                    status = error
                self.slowest_ms = max(self.slowest_ms, 1e3 * (time.monotonic() - start))
                if status != OK:
                    self.failed.append(f"{path}: {status}")
            self._end.wait(0.2)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


class Load:
    """The server, what is asked of it, and hey."""

    def __init__(self, options, server, folder):
        self.options, self.server = options, server
        self.path = f"/v2/models/{options.model}/infer"
        self.file = Path(folder) / "request.json"
        jpeg = base64.b64encode(options.photograph.read_bytes()).decode()
        self.file.write_text(json.dumps({"inputs": [
            {"name": "image", "datatype": "BYTES", "shape": [1], "data": [jpeg]}]}))
        for _ in range(WARM_UP):
            status, answer = server.get(self.path, self.file.read_bytes())
            if status != OK:
                raise SystemExit(f"{options.photograph}: status {status}: {answer}")

    def hey(self, clients, seconds):
        return subprocess.Popen(
            [self.options.hey, "-z", f"{seconds}s", "-c", str(clients), "-t", "0", "-cpus", "1",
             "-o", "csv", "-m", "POST", "-T", "application/json", "-D", self.file,
             f"http://127.0.0.1:{self.server.http}{self.path}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def measure(self, clients, seconds):
        """The summary of that load, with the model's own time and the slowest probe in it."""
        def own_time():
            return [self.server.metric(f"retina_model_seconds_{part}", model=self.options.model)
                    for part in ("sum", "count")]

        before = own_time()
        with Health(self.server, self.options.model) as health:
            process = self.hey(clients, seconds)
            out, error = process.communicate()
        if (ended := self.server.process.poll()) is not None:
            raise SystemExit(f"the server ended with {ended}:\n{self.server.log.read_text()[-4000:]}")
        if process.returncode:
            raise SystemExit(f"{self.options.hey}: ended with {process.returncode}: {error}")
        total, images = (after - old for after, old in zip(own_time(), before))
        return {"clients": clients, **summary(out), "model_ms": round(1e3 * total / images, 1),
                "slowest_probe_ms": round(health.slowest_ms, 1),
                "failed_probes": len(health.failed)}


def table(rows, titles):
    print("  ".join(title.rjust(max(9, len(title))) for title in titles.values()))
    for row in rows:
        print("  ".join(str(row[key]).rjust(max(9, len(title))) for key, title in titles.items()))


def load(options, folder):
    """Whether the server did only what it should."""
    begin = time.monotonic()
    with ModelServer(options.repository, folder, [options.model]) as server:
        print(json.dumps({"start_s": round(time.monotonic() - begin, 1)}), flush=True)
        asked, rows = Load(options, server, folder), []
        for clients in options.clients:
            rows.append(asked.measure(clients, options.seconds))
            print(json.dumps(rows[-1]), flush=True)
        print(json.dumps({"resident_mb": round(resident_mb(server.process))}), flush=True)
    for row in rows:
        row["refused_percent"] = f"{100 * row['refused']:.1f}"
    table(rows, {"clients": "clients", "answered_per_s": "answers/s", "p50_ms": "p50 ms",
                 "p99_ms": "p99 ms", "model_ms": "model ms", "refused_percent": "refused %",
                 "slowest_probe_ms": "slowest probe ms"})
    return not any(row["otherwise"] or row["failed_probes"] for row in rows)


def resident_mb(process):
    """Of the server and the processes that it started."""
    kilobytes = 0
    for pid in [process.pid, *map(int, Path(
            f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]:
        with contextlib.suppress(FileNotFoundError):  # it ended
            text = Path(f"/proc/{pid}/status").read_text()
            kilobytes += sum(int(line.split()[1]) for line in text.splitlines()
                             if line.startswith("VmRSS:"))
    return kilobytes / 1024


def versions():
    found = {"python": sys.version.split()[0]}
    for name in ("mlserver", "onnxruntime", "uvicorn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            raise SystemExit(f"{sys.executable}: has no {name}; hint: run this with the Python "
                             "that jobs/serving/README.md makes") from None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", type=Path, required=True,
                        help="the folder of retina-convert --repository")
    parser.add_argument("--photograph", type=Path, required=True)
    parser.add_argument("--model", default="coco_retinanet")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 128])
    parser.add_argument("--seconds", type=int, default=30, help="for each number of clients")
    parser.add_argument("--hey", default=shutil.which("hey"), help="default: that of PATH")
    options = parser.parse_args()
    if not options.hey:
        parser.error("hey is missing; hint: apt-get install hey")
    print(json.dumps({"command": sys.argv, **versions()}), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        good = load(options, folder)
        if not good:
            print((Path(folder) / "server.log").read_text()[-4000:], file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
