"""How much of the gradients' way between two machines is left after backward, against Python's DDP with
gloo in the same run: two network namespaces, one rank each, joined by a link of 400 Mbit/s.

    sudo RETINA_BUILD=build tests/bench/overlap.py --python PYTHON [--rounds 1] [--steps 8]

PYTHON has torch and torchvision (make test-oracle installs them in .deps/oracle/bin/python). Prints a
line of JSON a measurement, then a table: medians over the steps of all rounds, the first two of each
job left out. Exits 69 with the reason where namespaces or shaping are not to be had."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mpi"))
from faults import MPI  # noqa: E402
from node_faults import TwoNodes  # noqa: E402

BUILD = Path(os.environ.get("RETINA_BUILD", "build")).resolve()
SIDE_PX = 128
RATE = "400mbit"
WARM_UP = 2
# Ours by name: options of retina-train.
OURS = {"overlap": [], "after backward": ["--overlap-reduce", "off"], "overlap, bf16": ["--wire", "bf16"]}


class Link(TwoNodes):
    """A rank on each node."""

    def shape(self):
        for name in self.names:
            self.ip("netns", "exec", name, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate",
                    RATE, "burst", "256kb", "latency", "200ms")

    def ours(self, *arguments):
        net = f"{self.net}.0/24"
        mca = {"plm_rsh_agent": self.agent, "oob_tcp_if_include": net, "btl_tcp_if_include": net,
               "btl": "tcp,self", "pml": "ob1", "mpi_yield_when_idle": 1}
        options = [str(word) for name, value in mca.items() for word in ("--mca", name, value)]
        return ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                'hostname node-a; exec "$@"', "sh", "mpirun", "-np", "2", "--bind-to", "none", *options,
                "-H", f"{self.net}.1:1,{self.net}.2:1", "-x", "OMP_NUM_THREADS=1", *map(str, arguments)]

    def peer(self, rank, *arguments):
        return ["ip", "netns", "exec", self.names[rank], "env", f"RANK={rank}", "WORLD_SIZE=2",
                f"MASTER_ADDR={self.net}.1", "MASTER_PORT=29411", f"GLOO_SOCKET_IFNAME={self.names[rank]}",
                "OMP_NUM_THREADS=1", *map(str, arguments)]


def measure_ours(link, images, steps, extra):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = link.ours(BUILD / "bin/retina-train", "--synthetic", 4 * images * steps, "--output", run,
                            "--backbone", "resnet18", "--min-side", SIDE_PX, "--max-side", SIDE_PX,
                            "--images-per-step", 2 * images, "--steps", steps, "--compute-threads", 1,
                            "--threads", 1, "--checkpoint-every", "100000steps", *extra)
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **MPI},
                                check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}:\n{result.stderr}")
        told = [line for line in result.stderr.splitlines() if "gradients:" in line]
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{"step_ms": line["step_ms"] - line["data_wait_ms"], "exposed_ms": line["exposed_comm_ms"]}
            for line in lines if "step_ms" in line], told[0].split("gradients: ")[1]


def measure_peer(link, python, images, steps):
    jobs = [subprocess.Popen(link.peer(rank, python, HERE / "ddp_peer.py", "--images", images, "--side",
                                       SIDE_PX, "--steps", steps), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for rank in range(2)]
    outputs = [job.communicate() for job in jobs]
    if any(job.returncode != 0 for job in jobs):
        raise RuntimeError("\n".join(error for _, error in outputs))
    result = json.loads(outputs[0][0])
    return result["steps"], f"{result['parameters'] / 1e6:.1f} M values, torch {result['torch']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--images", type=int, nargs="+", default=[1, 2, 4], help="a rank")
    options = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, ["ip", "tc", "mpirun"])):
        print("needs root, ip, tc and mpirun", file=sys.stderr)
        return 69
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            link = Link(folder)
            link.shape()
        except subprocess.CalledProcessError as error:
            print(f"no shaped namespaces here: {error.stderr.decode().strip()}", file=sys.stderr)
            return 69
        try:
            for _ in range(options.rounds):
                for images in options.images:
                    ways = {name: lambda extra=extra: measure_ours(link, images, options.steps, extra)
                            for name, extra in OURS.items()}
                    ways["DDP, gloo"] = lambda: measure_peer(link, options.python, images, options.steps)
                    for name, measure in ways.items():
                        steps, told = measure()
                        found.setdefault((images, name), []).extend(steps[WARM_UP:])
                        print(json.dumps({"bench": "overlap", "rate": RATE, "images_per_rank": images,
                                          "way": name, "told": told, "steps": steps}), flush=True)
        finally:
            link.close()
    print(f"{'images':>6} {'way':16} {'steps':>5} {'step ms':>8} {'of DDP':>6} {'exposed ms':>10} {'of DDP':>6}")
    for (images, name), steps in found.items():
        peer = found[images, "DDP, gloo"]
        row = [statistics.median(step[key] for step in steps) for key in ("step_ms", "exposed_ms")]
        base = [statistics.median(step[key] for step in peer) for key in ("step_ms", "exposed_ms")]
        print(f"{images:6} {name:16} {len(steps):5} {row[0]:8.0f} {row[0] / base[0]:6.2f} {row[1]:10.0f} "
              f"{row[1] / base[1]:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
