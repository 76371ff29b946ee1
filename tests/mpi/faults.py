"""Real ranks under mpirun, one of which fails at a random moment, or, in every third job, a second one at the same
time or while the job ends: it ends within 10 s of the last fault (--stall-timeout 5), with one line that names a
failed rank, and never hangs. `RETINA_FAULTS=1000` injects that many and prints a table; each job is watch_ranks (tests/watch). After every
hundredth and the last a training on so many ranks loses one and goes on to the bits of an undisturbed one.
RETINA_FAULT_JOBS=8: so many at once."""

import concurrent.futures
import functools
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mounts"))
import disk_faults

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
FAULT_LINE = re.compile(r"\bfault ([0-9]+\.[0-9]+)$", re.MULTILINE)  # a backtrace may share the line
SECOND = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "segv": signal.SIGSEGV}
CONTINUED_EVERY = 100
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
        # Of two stopped ranks none could report.
        kinds = [second for second in SECOND if self.ranks > 2 or {kind, second} != {"stop"}]
        self.second = source.choice(kinds) if source.random() < 1 / 3 else None
        if self.second:
            self.arguments += ["--finish-limit", 5]
        self.second_victim = (self.victim + source.randrange(1, self.ranks)) % self.ranks
        self.second_after_s = source.choice([0, source.random() * .3, source.random() * 6])

    def words(self):
        second = (f", then {self.second} of rank {self.second_victim} after {self.second_after_s:.3f} s"
                  if self.second else "")
        return f"fault {self.number}, {self.kind} on {self.ranks} ranks, {self.arguments}{second}"

    def diagnosis(self):
        """Pattern of the one line."""
        name = rf"rank {self.victim} \([^)]+\)"
        seen = rf".*last seen in {self.phase} of step {self.step},"
        if self.kind in LOST and self.delay_ms < HEARD_MS:
            seen = r".*last seen in (start|\S.* of step \d+|\S.* before the first step),"
        return {"kill": rf"{name} died{seen}", "segv": rf"{name} died{seen}",
                "exit0": rf"{name} died{seen}", "exit1": rf"{name} died{seen}",
                # Others may have waited for it as long as it has been silent.
                "stop": rf"{name} (is stopped or cut off|never entered){seen}",
                "leave": rf"{name} ended its work early and never entered bucket 0",
                "leave1": rf"{name} ended its work early and never entered bucket 0",
                "swap": rf"the ranks call different collectives \(.* on {name}",
                "size": rf"the ranks call different collectives \(.* on {name}",
                "stall": rf"{name} never entered bucket 0 of step 8{seen}",
                "full-disk": r"checkpoint: No space left on device"}[self.kind]


def mpirun(ranks, *arguments):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca",
            "mpi_yield_when_idle", "1", *map(str, arguments)]


def rank_pids(job):
    """rank -> process of the ranks that mpirun has started here."""
    pids = {}
    for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split():
        try:
            found = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", Path(f"/proc/{pid}/environ").read_bytes())
        except OSError:
            continue
        if found:
            pids[int(found.group(1))] = int(pid)
    return pids


def signal_rank(job, rank, number):
    """Returns when, or None where the rank or mpirun has ended."""
    try:
        os.kill(rank_pids(job)[rank], number)
    except (OSError, KeyError):
        return None
    return time.time()


def wait_for_fault(job, log):
    while not FAULT_LINE.search(log.read_text(errors="replace")) and job.poll() is None:
        time.sleep(.01)


def strike_again(fault, job, log):
    """The second fault, so long after the first; returns when it struck, or None where all had ended."""
    wait_for_fault(job, log)
    time.sleep(fault.second_after_s)
    return signal_rank(job, fault.second_victim, SECOND[fault.second])


def run(ranks, *arguments, meanwhile=lambda job, log: None, **environment):
    """Runs the job, and `meanwhile` beside it; returns its exit code or "hung", when it ended, all that it said, and
    what `meanwhile` returned."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            job = subprocess.Popen(mpirun(ranks, BUILD / "bin/watch_ranks", *arguments), stdout=out,
                                   stderr=out, env={**os.environ, **MPI, **environment},
                                   process_group=0)
            result = meanwhile(job, log)
            try:
                code = job.wait(timeout=60)
            except subprocess.TimeoutExpired:
                code = "hung"
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        return code, time.time(), log.read_text(errors="replace"), result


def inject(fault):
    """Runs the job; returns what was wrong (or ""), what happened and the seconds from the last fault to the end."""
    second = (lambda job, log: strike_again(fault, job, log)) if fault.second else (lambda job, log: None)
    code, end, text, struck_again = run(fault.ranks, *fault.arguments, meanwhile=second)
    began = FAULT_LINE.search(text)
    seconds = end - max(float(began.group(1)), struck_again or 0) if began else float("nan")
    errors = re.findall(r"watch-ranks(?:\[\d+\])?: error: .*", text)
    warnings = [line for line in re.findall(r"watch-ranks(?:\[\d+\])?: warning: .*", text)
                if "not been heard of" not in line]  # a busy machine may stop anybody for a second
    codes, lines = CODES.get(fault.kind, {76}), [] if fault.kind in HARMLESS else [fault.diagnosis()]
    if struck_again:
        codes = codes | CODES.get(fault.second, {76})
        # When one dies, mpirun kills the others, a stopped one too; of frozen ones any may see that first.
        rank = r"\d+" if fault.kind == "freeze" else f"({fault.victim}|{fault.second_victim})"
        lines.append(rf"rank {rank} \([^)]+\) (died|is stopped or cut off|never entered|has been in)")
        # Both in one line.
        lines.append(rf"ranks {min(fault.victim, fault.second_victim)}, {max(fault.victim, fault.second_victim)} ")
        # Where no rank is left that runs, mpirun alone sees what has died.
        errors = errors or re.findall(r"(?:noticed that|due to) process rank .*|Process name: .*", text)
        lines += [rf"(process rank |,1\],)({fault.victim}|{fault.second_victim})\b"]
        if "done" in text:  # the second one came while MPI ended
            codes = codes | {-signal.SIGKILL}
            lines.append("MPI has not ended on every rank")
    wrong = []
    if not began:
        wrong.append("the fault was not told")
    if code not in codes:
        wrong.append(f"exit code {code}")
    if fault.kind in HARMLESS and (code == 0 or not struck_again):
        if errors or "done" not in text:
            wrong.append("the job did not go on")
        if not struck_again and fault.kind not in ("pause", "freeze") and (
                len(warnings) != 1 or f"rank {fault.victim} (" not in warnings[0]):
            wrong.append("not one warning that names the rank")
    else:
        # Of two faults each may be reported, by a rank that has not heard of the other.
        if not 1 <= len(errors) <= 1 + bool(struck_again) or not all(
                any(re.search(line, error) for line in lines) for error in errors):
            wrong.append("not one line that names the rank and phase")
        limit = LIMIT_S + (3 if fault.kind == "stall" else 0)
        if not seconds <= limit:
            wrong.append(f"it took {seconds:.1f} s")
    if wrong:
        wrong.append(text)
    what = fault.kind
    if fault.second:
        what = ("one, the second too late" if not struck_again else
                "two at once" if fault.second_after_s == 0 else "one during another's end")
    return "\n  ".join(wrong), what, seconds


def table(results):
    """`results`: (kind, seconds from the fault to the end) of each fault."""
    lines = [f"{'kind':24} {'count':>5} {'median s':>9} {'worst s':>8}"]
    for kind in sorted(dict(results)):
        times = [seconds for other, seconds in results if other == kind]
        lines.append(f"{kind:24} {len(times):5} {statistics.median(times):9.2f} {max(times):8.2f}")
    return "\n".join(lines)


class TrainingOnRanks(disk_faults.Train):
    """A short training that loses a rank and is run again: the bits of an undisturbed one."""

    steps = 23
    interval = "4steps"

    def __init__(self, room):
        super().__init__(room)
        self.calm_runs = {}  # ranks -> (result, seconds)
        self.seconds = float("nan")

    def start(self, ranks):
        return subprocess.Popen(mpirun(ranks, *self.train(self.output), "--stall-timeout", 10), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**disk_faults.ENVIRONMENT, **MPI})

    def train_calmly(self, ranks):
        if not self.calm_runs:
            self.prepare()
        if ranks not in self.calm_runs:
            self.begin()
            began = time.time()
            text, _ = self.start(ranks).communicate(timeout=120)
            self.calm_runs[ranks] = self.result(), time.time() - began
            if not self.calm_runs[ranks][0]:
                raise RuntimeError(text)
        return self.calm_runs[ranks]

    def lose_a_rank(self, ranks, source):
        """Returns what was wrong, or ""; `seconds` is from the fault to the job's end."""
        calm, calm_seconds = self.train_calmly(ranks)
        self.begin()
        job = self.start(ranks)
        # Before that MPI starts, for which it has two minutes.
        while job.poll() is None and not (self.output / "metrics.jsonl").exists():
            time.sleep(.01)
        time.sleep(source.random() * calm_seconds / 2)
        kind, victim = source.choice([*SECOND]), source.randrange(ranks)
        signal_rank(job, victim, SECOND[kind])
        began = time.time()
        alone_since = None
        while job.poll() is None and time.time() - began < 100:  # where MPI is about to end it has a minute
            time.sleep(.02)
            if [*rank_pids(job)] != [victim]:
                alone_since = None
            elif time.time() - (alone_since := alone_since or time.time()) > 5:
                signal_rank(job, victim, signal.SIGCONT)  # stopped when all work was done: mpirun waits for it
        text, _ = job.communicate(timeout=20)
        self.seconds = time.time() - began
        if job.returncode not in CODES.get(kind, {76}) | {0}:
            return f"training: {kind} of rank {victim}: exit code {job.returncode}\n{text}"
        again = self.start(ranks)
        text, _ = again.communicate(timeout=120)
        if again.returncode != 0:
            return f"training: continued after {kind}: exit code {again.returncode}\n{text}"
        return "" if self.result() == calm else f"training: continued after {kind} of rank {victim}: other bits"


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
        with tempfile.TemporaryDirectory() as room, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            training = TrainingOnRanks(Path(room).resolve())
            for fault, (wrong, what, seconds) in zip(faults, pool.map(inject, faults)):
                results.append((what, seconds))
                if fault.number % CONTINUED_EVERY == CONTINUED_EVERY - 1 or fault.number == count - 1:
                    wrong = wrong or training.lose_a_rank(fault.ranks, source)
                    results.append(("training, continued", training.seconds))
                if wrong:
                    failures.append(f"{fault.words()}: {wrong}")
                    print(failures[-1], flush=True)
        print(table(results), flush=True)
        self.assertEqual(len(failures), 0, f"{len(failures)} of {count} faults, seed {seed}")

    def test_a_wrong_command_line_is_reported_once_also_where_rank_0_has_a_right_one(self):
        other_node = ["env", "OMPI_COMM_WORLD_LOCAL_RANK=0", BUILD / "bin/watch_ranks", "--wrong"]
        for of_rank_0, teller in [(["--steps", 20], r"watch-ranks\[1\] on \S+"),
                                  (["--wrong"], "watch-ranks")]:
            code, _, text, _ = run(1, *of_rank_0, ":", "-np", 1, *other_node)
            self.assertEqual(code, 64, text)
            self.assertEqual(text.count("--wrong"), 1, text)
            self.assertRegex(text, f"(?m)^{teller}: error: ")

    def test_what_others_put_among_the_temporary_files_holds_no_job(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("retina-events-x", "retina-diagnosis-x"):
                os.mkfifo(Path(folder) / name)
                os.utime(Path(folder) / name, (0, 0))
            code, _, text, _ = run(2, "--steps", 2, TMPDIR=folder)
            self.assertEqual(code, 0, text)

    def test_a_lost_rank_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for victim in [0, 1]:
                run(3, "--fault", "kill", "--victim", victim, TMPDIR=folder)
            left = [path.name for path in Path(folder).glob("**/*") if "retina" in path.name]
            self.assertEqual(left, [])

    def test_a_stopped_rank_0_that_is_continued_does_not_tell_again(self):
        def stop_rank_0(job, log):
            wait_for_fault(job, log)
            time.sleep(3.4)  # others have waited for longer than the limit when mpirun continues it
            signal_rank(job, 0, signal.SIGSTOP)

        code, _, text, _ = run(3, "--steps", 12, "--fault", "slow", "--victim", 1, "--fault-step", 8, "--fault-phase",
                               "checkpoint.write", "--duration", 5, "--stall-timeout", 3, meanwhile=stop_rank_0)
        self.assertEqual(code, 76, text)
        self.assertIn("rank 0 ", text)
        self.assertEqual(text.count(" error: "), 1, text)

    def test_a_rank_that_stands_still_for_less_than_the_timeout_costs_no_job(self):
        for victim in [0, 1]:  # clouds freeze a machine to move it
            code, _, text, _ = run(3, "--steps", 8, "--fault", "pause", "--victim", victim, "--duration", 7,
                                   "--stall-timeout", 40)
            self.assertEqual(code, 0, text)
            self.assertIn("done", text)
            self.assertNotIn(" error: ", text)
            if victim != 0:  # while rank 0 is frozen nobody hears anybody
                self.assertRegex(text, r"warning: rank 1 \([^)]+\) has not been heard of for .*--stall-timeout")

    def test_a_rank_lost_while_all_stand_still_is_named(self):
        def stop_all_and_kill(victim, job, log):
            wait_for_fault(job, log)
            for rank in range(3):
                signal_rank(job, rank, signal.SIGSTOP)
            time.sleep(6)  # longer than they would wait for each other
            signal_rank(job, victim, signal.SIGKILL)  # mpirun continues the others to end them

        for victim in [0, 2]:
            code, _, text, _ = run(3, "--steps", 12, "--fault", "slow", "--victim", 1, "--fault-step", 8, "--duration", 20,
                                   meanwhile=functools.partial(stop_all_and_kill, victim))
            self.assertIn(code, CODES["kill"], text)
            self.assertEqual(text.count(" error: "), 1, text)
            self.assertRegex(text, rf"error: rank {victim} \([^)]+\) died")

    def test_a_rank_that_stops_before_mpi_starts_ends_the_job(self):
        for victim, seconds in [(0, 4), (1, 2)]:  # rank 1 tells where rank 0 cannot
            code, _, text, _ = run(3, "--start-limit", 2, WATCH_RANKS_STOP_BEFORE_MPI=str(victim))
            self.assertEqual(code, 76, text)
            self.assertEqual(text.count(" error: "), 1, text)
            self.assertIn(f"MPI has not started on every rank within {seconds} s", text)

    def test_a_rank_that_stops_while_mpi_ends_does_not_hold_the_job(self):
        for victim in [0, 1]:
            code, _, text, _ = run(3, "--steps", 2, "--fault", "stop-in-finalize", "--victim", victim,
                                "--finish-limit", 2)
            self.assertEqual(code, -signal.SIGKILL, text)
            self.assertIn("done", text)
            self.assertIn("MPI has not ended on every rank", text)


if __name__ == "__main__":
    sys.argv[0] = "faults.py"
    unittest.main()
