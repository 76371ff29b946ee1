"""Real ranks under mpirun, one of which fails at a random moment: the job ends within 10 s of the
fault, with one line that names the rank, and never hangs. `RETINA_FAULTS=1000` injects that many and
prints a table; each job is watch_ranks (tests/watch)."""

import concurrent.futures
import itertools
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", "build"))
LIMIT_S = 10  # from a fault to the end of the whole job
MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# What mpirun ends with: 76, or its own code where it notices the death first.
CODES = {"kill": {76, 137}, "segv": {76, 139}, "exit0": {76, 1}, "exit1": {76, 1}, "full-disk": {74},
         "slow": {0}, "disk": {0}, "pause": {0}, "freeze": {0}}
KINDS = ["kill", "stop", "segv", "leave", "leave1", "swap", "size", "exit0", "exit1", "full-disk", "stall",
         "slow", "disk", "pause", "freeze"]
HARMLESS = {"slow", "disk", "pause", "freeze"}
LOST = {"kill", "segv", "exit0", "exit1", "stop"}  # where they were is known from the last heartbeat
HEARD_MS = 2000  # a phase that lasts this long is in one: they come four times a second


class Fault:
    """One job and what happens in it, drawn from `source`."""

    def __init__(self, number, kind, source):
        self.number, self.kind = number, kind
        self.ranks = source.choice([2, 3, 4])
        self.victim = source.randrange(self.ranks)
        self.step = source.randrange(2, 9)
        self.phase = source.choice(["data.wait", "forward", "backward", "update"])
        delays_ms = [0, source.randrange(300)] + [HEARD_MS] * (kind in LOST)
        self.delay_ms = source.choice(delays_ms)
        self.arguments = ["--fault-bucket", source.randrange(3), "--delay-ms", self.delay_ms]
        program_kind = kind
        if kind in ("slow", "stall", "disk"):
            program_kind = "slow"
            self.phase = {"slow": "data.wait", "stall": "data.wait", "disk": "checkpoint.write"}[kind]
            self.step = 8
            self.arguments += ["--duration", {"slow": 2, "stall": 60, "disk": 5}[kind],
                               "--stall-timeout", 3, "--straggler-warning", 1]
        if kind == "freeze":  # all ranks at once, for longer than the limit
            self.phase = "data.wait"
            self.step = 8
            self.arguments += ["--duration", 4, "--stall-timeout", 2]
        self.arguments += ["--steps", 12, "--fault", program_kind, "--victim", self.victim,
                           "--fault-step", self.step, "--fault-phase", self.phase]

    def diagnosis(self):
        """Pattern of the one line."""
        name = rf"rank {self.victim} \([^)]+\)"
        seen = rf".*last seen in {self.phase} of step {self.step},"
        if self.kind in LOST and self.delay_ms < HEARD_MS:
            seen = r".*last seen in (start|\S.* of step \d+|\S.* before the first step),"
        return {"kill": rf"{name} died{seen}", "segv": rf"{name} died{seen}",
                "exit0": rf"{name} died{seen}", "exit1": rf"{name} died{seen}",
                "stop": rf"{name} is stopped or cut off{seen}",
                "leave": rf"{name} ended its work early and never entered bucket 0",
                "leave1": rf"{name} ended its work early and never entered bucket 0",
                "swap": rf"the ranks call different collectives \(.* on {name}",
                "size": rf"the ranks call different collectives \(.* on {name}",
                "stall": rf"{name} never entered bucket 0 of step 8{seen}",
                "full-disk": r"checkpoint: No space left on device"}[self.kind]


def mpirun(ranks, *arguments):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca",
            "mpi_yield_when_idle", "1", *map(str, arguments)]


def run(ranks, *arguments, **environment):
    """Runs the job; returns its exit code or "hung", when it ended and all that it said."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            job = subprocess.Popen(mpirun(ranks, BUILD / "bin/watch_ranks", *arguments), stdout=out,
                                   stderr=out, env={**os.environ, **MPI, **environment},
                                   start_new_session=True)
            try:
                code = job.wait(timeout=60)
            except subprocess.TimeoutExpired:
                code = "hung"
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        return code, time.time(), log.read_text(errors="replace")


def inject(fault):
    """Runs the job; returns what was wrong (or "") and the seconds from the fault to the end."""
    code, end, text = run(fault.ranks, *fault.arguments)
    began = re.search(r"\bfault ([0-9]+\.[0-9]+)$", text, re.MULTILINE)  # a backtrace may share the line
    seconds = end - float(began.group(1)) if began else float("nan")
    errors = re.findall(r"watch-ranks(?:\[\d+\])?: error: .*", text)
    warnings = re.findall(r"watch-ranks(?:\[\d+\])?: warning: .*", text)
    wrong = []
    if not began:
        wrong.append("the fault was not told")
    if code not in CODES.get(fault.kind, {76}):
        wrong.append(f"exit code {code}")
    if fault.kind in HARMLESS:
        if errors or "done" not in text:
            wrong.append("the job did not go on")
        if fault.kind not in ("pause", "freeze") and (len(warnings) != 1 or f"rank {fault.victim} (" not in warnings[0]):
            wrong.append("not one warning that names the rank")
    else:
        if len(errors) != 1 or not re.search(fault.diagnosis(), errors[0]):
            wrong.append("not one line that names the rank and phase")
        limit = LIMIT_S + (3 if fault.kind == "stall" else 0)
        if not seconds <= limit:
            wrong.append(f"it took {seconds:.1f} s")
    if wrong:
        wrong.append(text)
    return "\n  ".join(wrong), seconds


def table(results):
    """`results`: (kind, seconds from the fault to the end) of each fault."""
    lines = [f"{'kind':12} {'count':>5} {'median s':>9} {'worst s':>8}"]
    for kind in dict(results):
        times = [seconds for other, seconds in results if other == kind]
        lines.append(f"{kind:12} {len(times):5} {statistics.median(times):9.2f} {max(times):8.2f}")
    return "\n".join(lines)


class Faults(unittest.TestCase):
    def test_every_fault_ends_the_job_and_names_the_rank(self):
        count = int(os.environ.get("RETINA_FAULTS", len(KINDS)))
        seed = int(os.environ.get("RETINA_FAULT_SEED", random.randrange(10**6)))
        print(f"seed {seed}", flush=True)
        source = random.Random(seed)
        faults = [Fault(number, kind, source)
                  for number, kind in zip(range(count), itertools.cycle(KINDS))]
        jobs = int(os.environ.get("RETINA_FAULT_JOBS", 2))
        results, failures = [], []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for fault, (wrong, seconds) in zip(faults, pool.map(inject, faults)):
                results.append((fault.kind, seconds))
                if wrong:
                    failures.append(f"fault {fault.number}, {fault.kind} on {fault.ranks} ranks, "
                                    f"{fault.arguments}: {wrong}")
                    print(failures[-1], flush=True)
        print(table(results), flush=True)
        self.assertEqual(len(failures), 0, f"{len(failures)} of {count} faults, seed {seed}")

    def test_a_wrong_command_line_is_reported_once_also_where_rank_0_has_a_right_one(self):
        other_node = ["env", "OMPI_COMM_WORLD_LOCAL_RANK=0", BUILD / "bin/watch_ranks", "--wrong"]
        for of_rank_0, teller in [(["--steps", 20], r"watch-ranks\[1\] on \S+"),
                                  (["--wrong"], "watch-ranks")]:
            code, _, text = run(1, *of_rank_0, ":", "-np", 1, *other_node)
            self.assertEqual(code, 64, text)
            self.assertEqual(text.count("--wrong"), 1, text)
            self.assertRegex(text, f"(?m)^{teller}: error: ")

    def test_what_others_put_among_the_temporary_files_holds_no_job(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("retina-events-x", "retina-diagnosis-x"):
                os.mkfifo(Path(folder) / name)
                os.utime(Path(folder) / name, (0, 0))
            code, _, text = run(2, "--steps", 2, TMPDIR=folder)
            self.assertEqual(code, 0, text)

    def test_a_lost_rank_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for victim in [0, 1]:
                run(3, "--fault", "kill", "--victim", victim, TMPDIR=folder)
            left = [path.name for path in Path(folder).glob("**/*") if "retina" in path.name]
            self.assertEqual(left, [])

    def test_a_rank_that_stops_before_mpi_starts_ends_the_job(self):
        for victim, seconds in [(0, 4), (1, 2)]:  # rank 1 tells where rank 0 cannot
            code, _, text = run(3, "--start-limit", 2, WATCH_RANKS_STOP_BEFORE_MPI=str(victim))
            self.assertEqual(code, 76, text)
            self.assertEqual(text.count(" error: "), 1, text)
            self.assertIn(f"MPI has not started on every rank within {seconds} s", text)

    def test_a_rank_that_stops_while_mpi_ends_does_not_hold_the_job(self):
        for victim in [0, 1]:
            code, _, text = run(3, "--steps", 2, "--fault", "stop-in-finalize", "--victim", victim,
                                "--finish-limit", 2)
            self.assertEqual(code, -signal.SIGKILL, text)
            self.assertIn("done", text)
            self.assertIn("MPI has not ended on every rank", text)


if __name__ == "__main__":
    sys.argv[0] = "faults.py"
    unittest.main()
