"""The batch scripts: taken by Slurm's own sbatch and srun, with a controller of the test's own."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import job_files
from job_files import ROOT, folders_of, sbatch_options

setUpModule = job_files.render_jobs

# Two machines as the job wants them, that never start: State=CLOUD is there without a slurmd.
CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldAddr=127.0.0.1
SlurmUser={user}
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={room}/state
SlurmctldPidFile={room}/slurmctld.pid
SlurmdSpoolDir={room}/spool
PlugStackConfig={room}/plugstack.conf
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/pgid
GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=1000000
SlurmctldParameters=idle_on_node_suspend,cloud_dns
NodeName=n[1-{nodes}] NodeAddr=127.0.0.1 Port={port} CPUs=96 Gres=gpu:{gpus} State=CLOUD
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# What pyxis adds to srun; a Slurm without it does not know them.
PYXIS = {"--container-image", "--container-mounts", "--no-container-mount-home"}


def need(program):
    # Debian and Ubuntu put the controller where only root looks.
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not found:
        raise unittest.SkipTest(
            f"{program} is missing; hint: apt-get install slurmctld slurm-client")
    return found


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def scripts():
    return [path for folder in folders_of("slurm") for path in sorted(folder.glob("*.sbatch"))]


class SlurmScripts(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        (self.room / "state").mkdir()
        (self.room / "plugstack.conf").touch()
        size = job_files.table()["size"]
        self.config = self.room / "slurm.conf"
        self.port = free_port()
        self.config.write_text(CONFIG.format(
            user=subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip(),
            port=self.port, room=room.name, nodes=size["nodes"], gpus=size["gpus_per_node"]))
        (self.room / "gres.conf").write_text(f"Name=gpu Count={size['gpus_per_node']}\n")
        # No variable of a job that this test itself may be running in.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
        self.environment["SLURM_CONF"] = str(self.config)

    def start_controller(self):
        controller = need("slurmctld")
        log = (self.room / "log").open("w")
        self.addCleanup(log.close)
        running = subprocess.Popen([controller, "-D", "-f", self.config], stdout=log, stderr=log,
                                   env=self.environment)

        def stop():
            running.kill()
            running.wait()
        self.addCleanup(stop)
        while self.run_slurm("scontrol", "ping").returncode:
            if running.poll() is not None:
                said = (self.room / "log").read_text()
                release = self.run_slurm("sbatch", "--version").stdout.strip()
                if not release.startswith("slurm-wlm 22.05"):  # as Debian 12 has it: tried
                    self.skipTest(f"{release} does not take the test's slurm.conf: {said}")
                self.fail(f"slurmctld ended: {said}")
            time.sleep(0.05)

    def run_slurm(self, program, *arguments):
        return subprocess.run([need(program), *arguments], capture_output=True, text=True,
                              timeout=120, env=self.environment)

    def sbatch(self, content):
        path = self.room / "script.sbatch"
        path.write_text(content)
        return self.run_slurm("sbatch", "--test-only", path)

    def unknown(self, content):
        """The first option that sbatch does not know, at the latest the one put at the end."""
        content = re.sub(r"(?m)^(#SBATCH (?:.|\n#SBATCH )*)$", r"\1\n#SBATCH --none-such", content)
        return re.findall(r"unrecognized option '--([^'=]*)", self.sbatch(content).stderr)

    def test_sbatch_knows_every_option(self):
        for path in scripts():
            self.assertEqual(self.unknown(path.read_text()), ["none-such"], path.name)

    def test_options_are_not_abbreviated(self):
        # sbatch takes any unique beginning of an option, so a lost letter is no error there.
        known = set(re.findall(r"--([a-z-]+)", self.run_slurm("sbatch", "--help").stdout))
        self.assertIn("signal", known)
        known.add("open-mode")  # in the manual, not in the help
        for path in scripts():
            options = sbatch_options(path.read_text())
            self.assertEqual(set(options) - known, set(), path.name)
            # None is missing: every line that begins so was understood.
            self.assertEqual(len(options), path.read_text().count("#SBATCH"))

    def test_a_controller_would_start_every_script(self):
        self.start_controller()
        for path in scripts():
            done = self.sbatch(path.read_text())
            self.assertEqual(done.returncode, 0, path.name + done.stderr)
            self.assertRegex(done.stderr, "to start at")

    def test_each_task_of_an_array_packs_its_part_of_both_sets(self):
        content = (ROOT / "jobs/slurm/pack.sbatch").read_text()
        for more, part in (({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8"}, "3/8"),
                           ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "1", "PARTS": "8"}, "3/8"),
                           ({}, None)):
            _, runs = job_files.run_sbatch(content, 0, **more)
            self.assertEqual([run[run.index("--part") + 1] if "--part" in run else None for run in runs],
                             [part] * 2)

    def test_srun_takes_the_options_of_every_step(self):
        self.start_controller()
        plugins = self.run_slurm("srun", "--mpi=list")
        if "pmix" not in plugins.stdout + plugins.stderr:
            self.skipTest("this srun has no PMIx plugin")
        steps = 0
        for path in scripts():
            _, runs = job_files.run_sbatch(path.read_text(), job_files.table()["size"]["shm_gib"])
            sbatch = sbatch_options(path.read_text())
            size = [f"--{option}={sbatch[option]}"
                    for option in ("nodes", "ntasks", "gpus-per-node") if option in sbatch]
            for run in runs:
                options, words = job_files.srun_words(run)
                given = [option for option in run[:len(run) - len(words)]
                         if option.split("=")[0] not in PYXIS]
                if any(option.startswith("--ntasks=") for option in given):
                    size = [option for option in size if not option.startswith("--ntasks=")]
                done = self.run_slurm("srun", "--test-only", *size, *given, "true")
                self.assertEqual(done.returncode, 0, f"{path.name}: {given}: {done.stderr}")
                if words[0] in job_files.PROGRAMS:
                    self.assertLessEqual(PYXIS, set(options))
                    self.assertIn("--mpi=pmix", given)
                    steps += 1
        self.assertEqual(steps, 6 + 5)


if __name__ == "__main__":
    sys.exit(unittest.main())
