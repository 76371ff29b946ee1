"""How training scales over several hosts, on one machine: nodes.py [--rate 100mbit] --measured FILE

Each host is a network namespace with a cable to a bridge in another one; what a host sends is
shaped to --rate, or not at all. As root. Prints a table: up to 8 ranks on 4 hosts taking steps whose
computing is replaced by a sleep as long as one rank's measured step (bench_sleeping_step).
`retina-train --scaling-report DIR` on one rank measures it, into DIR/scaling.json.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("RETINA_BUILD", "build"))
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMP_NUM_THREADS": "1"}


class Hosts:
    """`count` network namespaces around a bridge, each with a host name of its own."""

    def __init__(self, count, folder, rate=None):
        tag = f"{os.getpid() % 10000:04d}"
        self.bridge = f"rb{tag}x"
        self.names = [f"rb{tag}{chr(ord('a') + i)}" for i in range(count)]
        self.net = f"10.{os.getpid() % 200 + 20}.78"
        self.agent = Path(folder) / "agent.sh"
        try:
            self.build(rate)
        except BaseException:
            self.close()
            raise

    def build(self, rate):
        self.ip("netns", "add", self.bridge)
        self.ip("-n", self.bridge, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.bridge, "link", "set", "bridge", "up")
        for place, name in enumerate(self.names, 1):
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{place}",
                    "netns", self.bridge)
            self.ip("-n", self.bridge, "link", "set", f"port{place}", "master", "bridge")
            self.ip("-n", self.bridge, "link", "set", f"port{place}", "up")
            self.ip("-n", name, "address", "add", f"{self.net}.{place}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "eth0", "up")
            if rate:
                self.run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                         rate, "burst", "128kb", "latency", "200ms")
        # What mpirun takes for ssh: AGENT HOST COMMAND.
        cases = "\n".join(f"{self.net}.{place}) name={name};;"
                          for place, name in enumerate(self.names, 1))
        self.agent.write_text(
            "#!/bin/sh\nwhile case $1 in -*) true;; *) false;; esac; do shift; done\n"
            f"case $1 in\n{cases}\nesac\nshift\n"
            "exec ip netns exec $name unshare --uts sh -c \"hostname $name; $*\"\n")
        self.agent.chmod(0o755)

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, capture_output=True)

    def ip(self, *arguments):
        self.run("ip", *arguments)

    def mpirun(self, ranks, hosts, *command):
        """Runs it with `ranks` spread evenly over the first `hosts`; returns what it prints."""
        each = ranks // hosts
        net = f"{self.net}.0/24"
        where = ",".join(f"{self.net}.{place}:{each}" for place in range(1, hosts + 1))
        words = ["mpirun", "-np", ranks, "-H", where, "--bind-to", "none", "--map-by", "slot",
                 "--mca", "mpi_yield_when_idle", "1", "--mca", "plm_rsh_agent", self.agent,
                 "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "pml", "ob1",
                 "--mca", "btl", "tcp,self,vader", "--mca", "oob_tcp_if_include", net,
                 "--mca", "btl_tcp_if_include", net, *command]
        inside = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                  f"hostname {self.names[0]}; exec \"$@\"", "sh", *map(str, words)]
        result = subprocess.run(inside, capture_output=True, text=True, env={**os.environ, **MPI},
                                timeout=900, check=False)
        if result.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit code {result.returncode}\n{result.stderr}")
        return result.stdout

    def close(self):
        for name in [*self.names, self.bridge]:
            listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True,
                                    check=False)
            for pid in listed.stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def sleep_table(rate, measured, steps, counts):
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(4, folder, rate)
        try:
            program = (BUILD / "bin/bench_sleeping_step").absolute()
            rows = []
            for ranks in counts:
                rows += lines_of(hosts.mpirun(ranks, min(ranks, 4), program, "--measured",
                                              Path(measured).absolute(), "--steps", steps))
        finally:
            hosts.close()
    one = rows[0]  # the counts begin with 1
    print(f"computing replaced by a sleep of {one['slept_seconds'] * 1e3:.0f} ms, one rank's measured "
          f"step; {one['buckets']} buckets, {one['bytes'] / 1e6:.1f} MB; links {rate or 'unshaped'}, "
          f"median of {steps} steps")
    print(f"{'ranks':>5} {'a host':>6} {'step ms':>9} {'images/s':>9} {'times one rank':>15}")
    for row in rows:
        print(f"{row['ranks']:5} {row['ranks_per_node']:6} {row['step_seconds_median'] * 1e3:9.1f} "
              f"{row['images_per_second']:9.3f} "
              f"{row['images_per_second'] / one['images_per_second']:15.2f}")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rate", default="", help="of each host's link, e.g. 400mbit; else unshaped")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ranks", default="1,2,4,8", help="1 and multiples of 4, or less than 4")
    parser.add_argument("--measured", required=True, help="scaling.json with a run on one rank: sleep that long")
    options = parser.parse_args()
    sleep_table(options.rate, options.measured, options.steps,
                [1, *[int(n) for n in options.ranks.split(",") if n != "1"]])


if __name__ == "__main__":
    main()
