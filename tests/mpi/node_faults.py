"""Ranks on two nodes, network namespaces, one of which is lost: both sides end within 10 s of it, given a
--stall-timeout of 5 s (watch_ranks' default), mpirun too, and one line names the node's ranks.
`RETINA_FAULTS=30` loses one that many times a kind, at random moments, and prints a table."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import faults

CUT_OFF = r"ranks 2, 3 \(node-b\) are stopped or cut off"
# mpirun sees its daemon end, or its keepalive fail, or a rank ends it.
CODES = {"node killed": {76, 205, 137}, "cut": {76, 205, -signal.SIGKILL},
         "cut, sending": {-signal.SIGKILL}}
LINES = {"node killed": r"ranks? [23, ]+\(node-b\) (are stopped or cut off|died)", "cut": CUT_OFF,
         "cut, sending": r"rank 1 \(node-b\) is stopped or cut off"}
# Where a node has one rank it must report the diagnosis and end mpirun.
PER_NODE = {"cut, sending": 1}


class TwoNodes:
    """Two network namespaces joined by one cable, each with a host name of its own."""

    def __init__(self, folder):
        tag = f"{os.getpid() % 10000:04d}"
        self.names = [f"rw{tag}a", f"rw{tag}b"]
        self.net = f"10.{os.getpid() % 200 + 20}.77"
        self.agent = Path(folder) / "agent.sh"
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("link", "add", self.names[0], "netns", self.names[0], "type", "veth", "peer", "name",
                self.names[1], "netns", self.names[1])
        for place, name in enumerate(self.names, 1):
            self.ip("-n", name, "address", "add", f"{self.net}.{place}/24", "dev", name)
            self.ip("-n", name, "link", "set", name, "up")
        # What mpirun takes for ssh: AGENT HOST COMMAND.
        self.agent.write_text(
            "#!/bin/sh\nwhile case $1 in -*) true;; *) false;; esac; do shift; done\nshift\n"
            f"ip netns exec {self.names[1]} unshare --uts sh -c \"hostname node-b; $*\"\n"
            # A real one is cut off too and does not see the other side end. What mpirun writes into
            # is not held: who reads it to its end waits for it before it takes mpirun's exit code.
            "exec </dev/null >/dev/null 2>&1\n"
            "while kill -0 $PPID 2>/dev/null; do sleep 0.1; done\n")
        self.agent.chmod(0o755)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def command(self, *arguments, per_node=2, keepalive=(1, 1, 3)):
        net = f"{self.net}.0/24"
        options = ["--mca", "plm_rsh_agent", str(self.agent), "--mca", "oob_tcp_if_include", net,
                   "--mca", "btl_tcp_if_include", net, "--mca", "btl", "tcp,self", "--mca", "pml",
                   "ob1", "-H", f"{self.net}.1:{per_node},{self.net}.2:{per_node}",
                   # Earlier than the watch: once mpirun has something to send to the lost node,
                   # keepalive does not run and it waits for a quarter of an hour.
                   "--mca", "oob_tcp_keepalive_time", str(keepalive[0]), "--mca", "oob_tcp_keepalive_intvl",
                   str(keepalive[1]), "--mca", "oob_tcp_keepalive_probes", str(keepalive[2])]
        inner = faults.mpirun(2 * per_node, *options, *arguments)
        return ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                'hostname node-a; exec "$@"', "sh", *inner]

    def processes(self, node):
        listed = subprocess.run(["ip", "netns", "pids", self.names[node]], capture_output=True,
                                text=True, check=True).stdout.split()
        commands = [Path(f"/proc/{pid}/comm") for pid in listed]
        return [path for path in commands if path.exists() and "watch_ranks" in path.read_text()]

    def cut(self):
        self.ip("-n", self.names[1], "link", "set", self.names[1], "down")

    def join(self):
        self.ip("-n", self.names[1], "link", "set", self.names[1], "up")

    def kill(self, node):
        listed = subprocess.run(["ip", "netns", "pids", self.names[node]], capture_output=True,
                                text=True, check=False).stdout.split()
        for pid in listed:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self):
        for node, name in enumerate(self.names):
            self.kill(node)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class NodeFaults(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            self.skipTest("needs root and ip for network namespaces")

    def test_a_killed_node_ends_the_job(self):
        self.lose_nodes("node killed")

    def test_a_cut_network_ends_both_sides(self):
        self.lose_nodes("cut")

    def test_a_cut_network_ends_an_mpirun_that_is_sending(self):
        """What is not acknowledged stops its keepalive."""
        self.lose_nodes("cut, sending", "--stdin", "1")

    def test_a_node_that_comes_back_costs_no_job(self):
        """A machine that is moved is not heard from for up to 30 s."""
        with self.two_nodes() as (nodes, folder):
            log = folder / "log"
            command = nodes.command(faults.BUILD / "bin/watch_ranks", "--steps", 40, "--stall-timeout", 60,
                                    keepalive=(20, 5, 6))
            with log.open("wb") as out:
                job = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **faults.MPI})
            try:
                self.until(lambda: "running" in log.read_text(), 30, log)
                nodes.cut()
                time.sleep(8)
                nodes.join()
                self.until(lambda: job.poll() is not None, 100, log)
            finally:
                job.kill()
                job.wait()
            self.assertEqual(job.returncode, 0, log.read_text())
            self.assertIn("done", log.read_text())

    @contextlib.contextmanager
    def two_nodes(self):
        """The nodes and a folder for the job's log."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                nodes = TwoNodes(folder)
            except subprocess.CalledProcessError as error:
                self.skipTest(f"no network namespaces here: {error.stderr.decode().strip()}")
            with contextlib.closing(nodes):
                yield nodes, Path(folder)

    def lose_nodes(self, kind, *options):
        rounds = int(os.environ.get("RETINA_FAULTS", 1))
        results = [(kind, self.lose_node(kind, options)) for _ in range(rounds)]
        print(faults.table(results), flush=True)

    def lose_node(self, kind, options):
        """Seconds from the fault to the end of all."""
        with self.two_nodes() as (nodes, folder):
            return self.lose_one_of(nodes, kind, options, folder)

    def lose_one_of(self, nodes, kind, options, folder):
        log = folder / "log"
        command = nodes.command(*options, faults.BUILD / "bin/watch_ranks", "--steps",
                                "4000", per_node=PER_NODE.get(kind, 2))
        with log.open("wb") as out:
            job = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True,
                                   stdin=subprocess.PIPE if options else subprocess.DEVNULL,
                                   env={**os.environ, **faults.MPI})
        try:
            if options:
                threading.Thread(target=self.write_lines, args=(job,), daemon=True).start()
            self.until(lambda: "running" in log.read_text(), 30, log)
            time.sleep(random.uniform(0, 0.5))
            began = time.monotonic()
            if kind == "node killed":
                nodes.kill(1)
            else:
                nodes.cut()
            self.until(lambda: not nodes.processes(0) and not nodes.processes(1), faults.LIMIT_S, log)
            left_s = faults.LIMIT_S - (time.monotonic() - began)
            self.until(lambda: job.poll() is not None, left_s, log)
            seconds = time.monotonic() - began
        finally:
            job.kill()
            job.communicate()
        text = log.read_text(errors="replace")
        self.assertIn(job.returncode, CODES[kind], text)
        # The other side's words cannot come through.
        errors = re.findall(r"watch-ranks(?:\[\d+\])?: error: .*", text)
        self.assertEqual(len(errors), 1, text)
        self.assertRegex(errors[0], LINES[kind])
        return seconds

    @staticmethod
    def write_lines(job):
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
    sys.argv[0] = "node_faults.py"
    unittest.main()
