"""Real ranks under mpirun, one of which fails at a random moment: the job ends within 10 s of the
fault, with one line that names the rank, and never hangs. `RETINA_FAULTS=1000` injects that many and
prints a table; each job is watch_ranks (tests/comm)."""

import concurrent.futures
import itertools
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", "build"))
LIMIT_S = 10  # from a fault to the end of the whole job
MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# What mpirun ends with: 76, or its own code where it notices the death first.
CODES = {"kill": {76, 137}, "segv": {76, 139}, "exit0": {76, 1}, "exit1": {76, 1}, "error": {74},
         "slow": {0}, "disk": {0}, "pause": {0}}
KINDS = ["kill", "stop", "segv", "leave", "leave1", "swap", "size", "exit0", "exit1", "error", "stall",
         "slow", "disk", "pause"]
HARMLESS = {"slow", "disk", "pause"}


class Fault:
    """One job and what happens in it, drawn from `source`."""

    def __init__(self, number, kind, source):
        self.number, self.kind = number, kind
        self.ranks = source.choice([2, 3, 4])
        self.victim = source.randrange(self.ranks)
        self.step = source.randrange(2, 9)
        self.phase = source.choice(["data.wait", "forward", "backward", "update"])
        self.arguments = ["--fault-bucket", source.randrange(3), "--delay-ms",
                          source.choice([0, source.randrange(300)])]
        program_kind = kind
        if kind in ("slow", "stall", "disk"):
            program_kind = "slow"
            self.phase = {"slow": "data.wait", "stall": "data.wait", "disk": "checkpoint.write"}[kind]
            self.step = 8
            self.arguments += ["--duration", {"slow": 2, "stall": 60, "disk": 5}[kind],
                               "--stall-timeout", 3, "--straggler-warning", 1]
        self.arguments += ["--steps", 12, "--fault", program_kind, "--victim", self.victim,
                           "--fault-step", self.step, "--fault-phase", self.phase]

    def verdict(self):
        """Pattern of the one line."""
        name = rf"rank {self.victim} \([^)]+\)"
        seen = rf".*last seen in {self.phase} of step {self.step},"
        return {"kill": rf"{name} died{seen}", "segv": rf"{name} died{seen}",
                "exit0": rf"{name} died{seen}", "exit1": rf"{name} died{seen}",
                "stop": rf"{name} is stopped or cut off{seen}",
                "leave": rf"{name} ended its work early and never entered bucket 0",
                "leave1": rf"{name} ended its work early and never entered bucket 0",
                "swap": rf"the ranks call different collectives \(.* on {name}",
                "size": rf"the ranks call different collectives \(.* on {name}",
                "stall": rf"{name} never entered bucket 0 of step 8{seen}",
                "error": r"checkpoint: no space left on the disk"}[self.kind]


def mpirun(ranks, *arguments):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--mca",
            "mpi_yield_when_idle", "1", *map(str, arguments)]


def inject(fault):
    """Runs the job; returns what was wrong (or "") and the seconds from the fault to the end."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            job = subprocess.Popen(mpirun(fault.ranks, BUILD / "bin/watch_ranks", "--folder", folder,
                                          *fault.arguments), stdout=out, stderr=out,
                                   env={**os.environ, **MPI}, start_new_session=True)
            try:
                code = job.wait(timeout=60)
            except subprocess.TimeoutExpired:
                code = "hung"
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        end = time.time()
        text = log.read_text(errors="replace")
    began = re.search(r"^fault ([0-9.]+)$", text, re.MULTILINE)
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
        if fault.kind != "pause" and (len(warnings) != 1 or f"rank {fault.victim} (" not in warnings[0]):
            wrong.append("not one warning that names the rank")
    else:
        if len(errors) != 1 or not re.search(fault.verdict(), errors[0]):
            wrong.append("not one line that names the rank and phase")
        limit = LIMIT_S + (3 if fault.kind == "stall" else 0)
        if not seconds <= limit:
            wrong.append(f"it took {seconds:.1f} s")
    if wrong:
        wrong.append(text)
    return "\n  ".join(wrong), seconds


def table(results):
    lines = [f"{'kind':8} {'count':>5} {'median s':>9} {'worst s':>8}"]
    for kind in KINDS:
        times = [seconds for fault, seconds in results if fault.kind == kind]
        if times:
            lines.append(f"{kind:8} {len(times):5} {statistics.median(times):9.2f} {max(times):8.2f}")
    return "\n".join(lines)


class TwoNodes:
    """Two network namespaces joined by one cable, each with a host name of its own."""

    def __init__(self, folder):
        tag = f"{os.getpid() % 10000:04d}"
        self.names = [f"rw{tag}a", f"rw{tag}b"]
        self.net = f"10.{os.getpid() % 200 + 20}.77"
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("link", "add", self.names[0], "netns", self.names[0], "type", "veth", "peer", "name",
                self.names[1], "netns", self.names[1])
        for place, name in enumerate(self.names, 1):
            self.ip("-n", name, "address", "add", f"{self.net}.{place}/24", "dev", name)
            self.ip("-n", name, "link", "set", name, "up")
        self.agent = Path(folder) / "agent.sh"
        # What mpirun takes for ssh: AGENT HOST COMMAND.
        self.agent.write_text(
            "#!/bin/sh\nwhile case $1 in -*) true;; *) false;; esac; do shift; done\nshift\n"
            f"ip netns exec {self.names[1]} unshare --uts sh -c \"hostname node-b; $*\"\n"
            # A real one is cut off too and does not see the other side end.
            "while kill -0 $PPID 2>/dev/null; do sleep 0.1; done\n")
        self.agent.chmod(0o755)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def command(self, *arguments):
        net = f"{self.net}.0/24"
        options = ["--mca", "plm_rsh_agent", str(self.agent), "--mca", "oob_tcp_if_include", net,
                   "--mca", "btl_tcp_if_include", net, "--mca", "btl", "tcp,self", "--mca", "pml",
                   "ob1", "-H", f"{self.net}.1:2,{self.net}.2:2",
                   # Earlier than the watch: once mpirun has something to send to the lost node,
                   # keepalive does not run and it waits for a quarter of an hour.
                   "--mca", "oob_tcp_keepalive_time", "1", "--mca", "oob_tcp_keepalive_intvl", "1",
                   "--mca", "oob_tcp_keepalive_probes", "3"]
        inner = mpirun(4, *options, *arguments)
        return ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                'hostname node-a; exec "$@"', "sh", *inner]

    def processes(self, node):
        listed = subprocess.run(["ip", "netns", "pids", self.names[node]], capture_output=True,
                                text=True, check=True).stdout.split()
        commands = [Path(f"/proc/{pid}/comm") for pid in listed]
        return [path for path in commands if path.exists() and "watch_ranks" in path.read_text()]

    def cut(self):
        self.ip("-n", self.names[1], "link", "set", self.names[1], "down")

    def close(self):
        for name in self.names:
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True,
                                      check=False).stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


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
                results.append((fault, seconds))
                if wrong:
                    failures.append(f"fault {fault.number}, {fault.kind} on {fault.ranks} ranks, "
                                    f"{fault.arguments}: {wrong}")
                    print(failures[-1], flush=True)
        print(table(results), flush=True)
        self.assertEqual(len(failures), 0, f"{len(failures)} of {count} faults, seed {seed}")

    def test_a_cut_network_ends_both_sides(self):
        self.cut_network()

    def test_a_cut_network_ends_an_mpirun_that_is_sending(self):
        """What is not acknowledged stops its keepalive."""
        self.cut_network("--stdin", "2")

    def cut_network(self, *options):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            self.skipTest("needs root and ip for network namespaces")
        with tempfile.TemporaryDirectory() as folder:
            try:
                nodes = TwoNodes(folder)
            except subprocess.CalledProcessError as error:
                self.skipTest(f"no network namespaces here: {error.stderr.decode().strip()}")
            self.addCleanup(nodes.close)
            log = Path(folder) / "log"
            with log.open("wb") as out:
                job = subprocess.Popen(nodes.command(*options, BUILD / "bin/watch_ranks", "--folder",
                                                     folder, "--steps", "4000"),
                                       stdin=subprocess.PIPE if options else subprocess.DEVNULL,
                                       stdout=out, stderr=out, env={**os.environ, **MPI},
                                       start_new_session=True)
            if options:
                threading.Thread(target=self.write_lines, args=(job,), daemon=True).start()
            self.addCleanup(job.wait)
            self.addCleanup(job.kill)
            self.until(lambda: "running" in log.read_text(), 30, log)
            nodes.cut()
            began = time.monotonic()
            self.until(lambda: not nodes.processes(0) and not nodes.processes(1), LIMIT_S, log)
            ranks_s = time.monotonic() - began
            self.until(lambda: job.poll() is not None, LIMIT_S - ranks_s, log)
            print(f"ranks gone {ranks_s:.1f} s after the cut, mpirun "
                  f"{time.monotonic() - began:.1f} s, exit code {job.returncode}")
            # Killed by a rank when it does not end by itself.
            self.assertIn(job.returncode, (-signal.SIGKILL,) if options else
                          (76, 205, -signal.SIGKILL), log.read_text(errors="replace"))
            text = log.read_text(errors="replace")
            # The other side's words cannot come through.
            errors = re.findall(r"watch-ranks(?:\[\d+\])?: error: .*", text)
            self.assertEqual(len(errors), 1, text)
            self.assertRegex(errors[0], r"ranks 2, 3 \(node-b\) are stopped or cut off")

    def write_lines(self, job):
        try:
            while job.poll() is None:
                job.stdin.write(b"0123456789" * 10 + b"\n")
                job.stdin.flush()
                time.sleep(0.002)
        except BrokenPipeError:
            pass

    def until(self, condition, seconds, log):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail(f"not within {seconds:.1f} s:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)


if __name__ == "__main__":
    sys.argv[0] = "faults.py"
    unittest.main()
