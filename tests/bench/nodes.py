"""How training scales over several hosts, on one machine: nodes.py [--rate 100mbit] [--measured FILE]

Each host is a network namespace with a cable to a bridge in another one; what a host sends is
shaped to --rate, or not at all. As root. Prints a table:

- the α-β model against all-reduces at 2, 3 and 4 ranks, a rank a host, each measurement predicted by
  links that were fitted to others (bench_link_model);
- with --measured: up to 8 ranks on 4 hosts taking steps whose computing is replaced by a sleep as
  long as one rank's measured step (bench_sleeping_step). `retina-train --scaling-report DIR` on one
  rank measures it, into DIR/scaling.json.
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


def model_table(rate, repeats, sizes, statistic):
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(4, folder, rate)
        try:
            printed = ""
            for ranks in (2, 3, 4):
                printed += hosts.mpirun(ranks, ranks, (BUILD / "bin/bench_allreduce").absolute(),
                                        "--mode", "ring", "--type", "float32", "--min-bytes", sizes[0],
                                        "--max-bytes", sizes[1], "--factor", 4, "--repeats", repeats,
                                        "--warm-ups", 1)
        finally:
            hosts.close()
        measured = Path(folder) / "measured"
        measured.write_text(printed)
        result = subprocess.run([BUILD / "bin/bench_link_model", "--measured", measured,
                                 "--statistic", statistic],
                                capture_output=True, text=True, check=True)
    lines = lines_of(result.stdout)
    print(f"α-β model against all-reduces, a rank a host, links {rate or 'unshaped'}, "
          f"{statistic} of {repeats}")
    print(f"{'ranks':>5} {'bytes':>10} {'measured s':>11} {'by other ranks':>15} {'by other sizes':>15}")
    cells = {}
    for line in lines[:-1]:
        cells.setdefault((line["ranks"], line["bytes"]), {})[line["fitted_to"]] = line
    for (ranks, size), row in cells.items():
        one = row["other numbers of ranks"]
        told = [f"{row[key]['seconds_predicted']:8.4f} {row[key]['relative_error'] * 100:+5.1f}%"
                for key in ("other numbers of ranks", "other sizes")]
        print(f"{ranks:5} {size:10.0f} {one['seconds_measured']:11.4f} {told[0]} {told[1]}")
    print(f"worst: {lines[-1]['worst_by_other_numbers_of_ranks'] * 100:.1f} % by other numbers of "
          f"ranks, {lines[-1]['worst_by_other_sizes'] * 100:.1f} % by other sizes\n", flush=True)


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
    parser.add_argument("--statistic", choices=["median", "min"], default="median",
                        help="of the repeats; min where other work disturbs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--min-bytes", default="1MiB")
    parser.add_argument("--max-bytes", default="16MiB")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ranks", default="1,2,4,8", help="1 and multiples of 4, or less than 4")
    parser.add_argument("--measured", help="scaling.json with a run on one rank: sleep that long")
    options = parser.parse_args()
    if options.measured:
        sleep_table(options.rate, options.measured, options.steps,
                    [1, *[int(n) for n in options.ranks.split(",") if n != "1"]])
    else:
        model_table(options.rate, options.repeats, (options.min_bytes, options.max_bytes),
                    options.statistic)


if __name__ == "__main__":
    main()
