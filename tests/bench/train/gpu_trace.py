#!/usr/bin/env python3
"""What a trace of libretina_gpu_trace.so consists of: python3 gpu_trace.py trace.json [--steps N] [--most 40]

A row for each kernel or copy, longest first: milliseconds (with --steps of one step), share of the GPU's busy
time, calls. The last line: busy and idle time."""

import argparse
import collections
import gzip
import json


def kernels_of(path):
    """Of a trace as it was written or as gzip: events with name, ts and dur."""
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if is_packed else open)(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return [{"name": str(event["name"]), "ts": float(event["ts"]), "dur": float(event["dur"])}
            for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--steps", type=float, default=1, help="that the trace spans")
    parser.add_argument("--most", type=int, default=40, help="rows")
    options = parser.parse_args()
    if options.steps <= 0:
        parser.error("--steps: must be more than 0")
    try:
        events = kernels_of(options.trace)
    except (OSError, EOFError) as error:
        raise SystemExit(f"{options.trace}: {getattr(error, 'strerror', None) or error}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SystemExit(f"{options.trace}: is not a whole trace ({type(error).__name__}: {error}); let the program run until "
                         "it says that it wrote it")
    if not events:
        raise SystemExit(f"{options.trace}: holds no kernels")
    time_us, calls = collections.Counter(), collections.Counter()
    for event in events:
        time_us[event["name"]] += event["dur"]
        calls[event["name"]] += 1
    total = sum(time_us.values()) or 1
    for name, us in time_us.most_common(options.most):
        print(f"{us / 1e3 / options.steps:9.3f} ms {100 * us / total:5.1f} % {calls[name] / options.steps:8.1f} x  {name[:150]}")
    # Streams overlap.
    spans, busy, end = sorted((event["ts"], event["ts"] + event["dur"]) for event in events), 0, 0
    for begin, until in spans:
        busy += max(0, until - max(begin, end))
        end = max(end, until)
    print(f"{len(events)} kernels and copies; busy {busy / 1e3:.1f} ms of {(end - spans[0][0]) / 1e3:.1f} ms")


if __name__ == "__main__":
    main()
