"""The watch of a job of many ranks, simulated on one machine by many_ranks: whoever is lost is named by
one rank, and all others end. `RETINA_MANY_RANKS=1024 RETINA_FAULTS=10 ctest -R ManyRanks -V` loses a rank,
a node and a rack of so many ranks that often and prints a table of what rank 0 costs and of times."""

import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", "build"))
RANKS_PER_NODE, RANKS_PER_RACK = 8, 64


def victims(whom, ranks):
    """The first rank that is lost, and how many."""
    count = {"a rank": 1, "a node": RANKS_PER_NODE, "a rack": RANKS_PER_RACK, "rank 0": 1,
             "rank 0's node": RANKS_PER_NODE}[whom]
    return (0 if "rank 0" in whom else ranks // 2), count


def run(ranks, fault, whom="a rank", rest_s=3):
    first, count = victims(whom, ranks)
    with tempfile.TemporaryDirectory() as folder:
        command = [BUILD / "bin/many_ranks", "--ranks", ranks, "--ranks-per-node", RANKS_PER_NODE,
                   "--fault", fault, "--first-lost", first, "--lost", count, "--rest", rest_s, "--folder",
                   folder]
        out = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, timeout=200,
                             check=True).stdout
    return json.loads(out)


def names(first, count):
    """As the failure detector names these ranks."""
    node = first // RANKS_PER_NODE
    if count == 1:
        return f"rank {first} (node-{node})"
    nodes = count // RANKS_PER_NODE
    ranges = f"{first}-{first + count - 1}"
    return f"ranks {ranges} (node-{node})" if nodes == 1 else f"{count} ranks on {nodes} nodes ({ranges})"


def told(job, lost):
    """What reaches the user: once a process ends, the launcher ends the others."""
    return [line for line in job["lines"] if line["rank"] not in lost and line["s"] <= job["first_end_s"]]


def faults_of(job, fault, whom):
    """What is wrong with how the job ended."""
    ranks, wrong = job["ranks"], []
    if job["joined"] != ranks:
        return [f"{job['joined']} ranks joined"]
    if fault == "end":
        return ["a rank reported"] * bool(job["lines"]) + ["not all ended"] * (job["ended"] != ranks)
    first, count = victims(whom, ranks)
    lost = range(first, first + count)
    if job["ended"] != (ranks if fault == "cut" else ranks - count):
        wrong.append(f"{job['ended']} ranks ended")
    if job["wrong_codes"]:
        wrong.append(f"{job['wrong_codes']} ended with another code")
    lines = sorted((line for line in job["lines"] if line["rank"] not in lost), key=lambda line: line["s"])
    # Of a lost hub one of the ranks it heard reports, else rank 0 does.
    reporter = 0 if first > 0 else (1 if count == 1 else count)
    if not lines or lines[0]["rank"] != reporter:
        return wrong + [f"not reported by rank {reporter}"]
    text = lines[0]["text"]
    if fault == "kill" and count > 1 and first > 0:
        # Not all of their connections may have ended by then.
        expected, named = " died (", text.split(" died (")[0]
        if not any(f" {rank}" in f" {named}".replace("-", " ") for rank in lost):
            wrong.append("none of them is named")
    elif first == 0:
        expected = names(0, 1) + (" died (" if fault == "kill" else " is stopped or cut off (")
    else:
        verb = "is" if count == 1 else "are"
        expected = names(first, count) + (" died (" if fault == "kill" else f" {verb} stopped or cut off (")
    if expected not in text:
        wrong.append(f"got '{text}', want '{expected}'")
    if fault == "kill" and len(told(job, lost)) > 1:
        wrong.append(f"{len(told(job, lost))} lines")
    return wrong


def row(ranks, fault, whom, jobs):
    def middle_and_worst(values, unit=1.0):
        values = [value / unit for value in values]
        return f"{statistics.median(values):8.2f} {max(values):8.2f}"
    lost = range(victims(whom, ranks)[0], sum(victims(whom, ranks)))
    seen = [min((line["s"] for line in job["lines"] if line["rank"] not in lost), default=0) for job in jobs]
    lines = [len(told(job, lost)) for job in jobs]
    return (f"{ranks:5} {fault:4} {whom if fault != 'end' else '':13} {len(jobs):4} "
            f"{middle_and_worst([job['start_s'] for job in jobs])} "
            f"{middle_and_worst([job['cpu_share'] for job in jobs], 0.01)} "
            f"{max(job['memory_bytes'] for job in jobs) / 2**20:7.1f} {max(job['sockets'] for job in jobs):7} "
            f"{middle_and_worst(seen)} {middle_and_worst([job['last_end_s'] for job in jobs])} {max(lines):5}")


HEAD = (f"{'ranks':>5} {'':18} {'jobs':>4} {'start s':>17} {'% of a core':>17} {'MiB':>7} {'sockets':>7} "
        f"{'reported s':>17} {'all ended s':>17} lines   (median, worst)")


SHORT = [("end", "a rank"), ("kill", "a rank"), ("cut", "a node"), ("stop", "rank 0"),
         ("kill", "rank 0's node")]
ALL_CASES = SHORT + [("stop", "a rank"), ("cut", "a rank"), ("kill", "a node"), ("kill", "a rack"),
                     ("cut", "a rack"), ("kill", "rank 0"), ("cut", "rank 0's node")]


class ManyRanks(unittest.TestCase):
    def test_whoever_is_lost_is_named_once_and_all_others_end(self):
        sizes = [int(size) for size in os.environ.get("RETINA_MANY_RANKS", "128").split()]
        rounds = int(os.environ.get("RETINA_FAULTS", 0))
        cases = ALL_CASES if rounds else SHORT
        workers = int(os.environ.get("RETINA_FAULT_JOBS", 1 if rounds else len(cases)))
        failures = []
        print(HEAD, flush=True)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            tasks = [(size, fault, whom, [pool.submit(run, size, fault, whom, 3 if rounds else 0.2)
                                          for _ in range(rounds or 1)])
                     for size in sizes for fault, whom in cases if sum(victims(whom, size)) <= size]
            for size, fault, whom, running in tasks:
                jobs = [task.result() for task in running]
                print(row(size, fault, whom, jobs), flush=True)
                failures += [f"{size} ranks, {fault} {whom}: {wrong}" for job in jobs
                             for wrong in faults_of(job, fault, whom)]
        self.assertEqual(failures, [])


if __name__ == "__main__":
    sys.argv[0] = "many_ranks.py"
    unittest.main()
