"""One training on two machines of nodes.py, through retina-launch, ssh and mpirun: a machine that
dies or is cut off ends the job within 20 s with 76, and the same command continues.

    RETINA_BUILD=BUILD_DIR python3 two_nodes_test.py    this build over this root file system
    RETINA_IMAGE_ROOT=DIR RETINA_BUILD=BUILD_DIR ...    the unpacked image; the build makes the data
"""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import nodes
import small_training
from nodes import BUILD, wait_until

IMAGE_USER, ROOT = 10001, 0
STALL_S = 10
LIMIT_S = STALL_S + 10  # the promise: a dead or cut-off node ends the job within this
STEPS, SAVED_EVERY = 400, 50
SSH_S = 35  # a client of a node that is cut off gives up: ssh_config's ServerAlive*
HANG_S = 400  # a machine with other work to do is slow, not hung
TRAIN = [*small_training.TRAIN, "--steps", STEPS, "--steps-per-epoch", STEPS, "--checkpoint-every",
         f"{SAVED_EVERY}steps", "--stall-timeout", STALL_S]
NEEDED = [name for name in small_training.PROGRAMS if name != "retina-train" or not nodes.IMAGE_ROOT]


def what_is_missing():
    absent = [name for name in NEEDED if not (BUILD / "bin" / name).exists()]
    return f"no {', '.join(absent)} in {BUILD}/bin" if absent else nodes.why_not()


MISSING = what_is_missing()


@unittest.skipIf(MISSING, MISSING)
class TwoNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.data, ignore_errors=True)
        small_training.pack(BUILD, cls.data)

    def boot(self, uid):
        """Two machines with a folder that both mount, as a file share."""
        room = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, room, ignore_errors=True)
        room.chmod(0o755)
        self.shared = room / "shared"
        shutil.copytree(self.data / "shards", self.shared / "shards")
        (self.shared / "hosts").write_text("node-1 slots=1\nnode-2 slots=1\n")
        for path in (self.shared, self.shared / "shards"):
            os.chown(path, uid, uid)
        self.run_folder, self.log = self.shared / "run", self.shared / "log"
        self.first, self.second = self.enterContext(nodes.Nodes(room / "nodes", self.shared, uid))

    def launch(self, *words, restarts=0, environment=()):
        # Both nodes are this machine: ranks that wait must leave it its cores.
        environment = ["OMPI_MCA_mpi_yield_when_idle=1", *environment]
        return self.first.run(["env", *environment, "retina-launch", "--hostfile",
                               self.shared / "hosts", "--restarts", restarts, "--back-off", 0.5,
                               "--", *words], self.log)

    def train(self, **options):
        return self.launch("retina-train", "--train", self.shared / "shards", "--output",
                           self.run_folder, *TRAIN, **options)

    def text(self):
        return self.log.read_text()

    def last_step(self):
        """Of the last checkpoint, 0 without one."""
        names = [path.name for path in self.run_folder.glob("checkpoint-*.pt")]
        return max((int(re.search(r"-(\d{8})\.pt", name)[1]) for name in names), default=0)

    def wait_for_step(self, job, step):
        wait_until(lambda: job.poll() is not None or self.last_step() >= step, HANG_S, f"step {step}")
        self.assertIsNone(job.poll(), self.text())

    def ended(self, job, code, seconds):
        """Its end with this code, in the seconds that it took."""
        try:
            took = wait_until(lambda: job.poll() is not None, seconds, "the job's end")
        except AssertionError as error:
            self.fail(f"{error}\n{self.text()[-3000:]}")
        self.assertEqual(job.returncode, code, self.text()[-3000:])
        return took

    def expect_continued(self, saved):
        """The same command goes on from step `saved` or a later one, and finishes."""
        self.ended(self.train(), 0, HANG_S)
        self.expect_finished(saved)

    def expect_finished(self, saved):
        continued = re.findall(r"continuing from .*-(\d{8})\.pt", self.text())
        self.assertTrue(continued, self.text()[-3000:])
        self.assertGreaterEqual(int(continued[-1]), saved)
        lines = (self.run_folder / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines if '"step_ms"' in line]
        self.assertEqual(steps[-1], STEPS)
        self.assertEqual(steps, sorted(set(steps)))

    def tell(self, what, seconds):
        print(f"{self.id().split('.')[-1]}: {what} after {seconds:.1f} s", flush=True)

    def death(self, uid):
        self.boot(uid)
        job = self.train()
        self.wait_for_step(job, SAVED_EVERY)
        self.assertIn("retina-train", " ".join(self.second.processes()))
        saved = self.last_step()
        self.second.kill_all()
        self.tell("node killed: the job ended with 76", self.ended(job, 76, LIMIT_S))
        wait_until(lambda: not self.first.processes(), LIMIT_S, "nothing is left on the other node")
        self.second.start()
        self.expect_continued(saved)

    def cut(self, uid):
        self.boot(uid)
        job = self.train()
        self.wait_for_step(job, SAVED_EVERY)
        saved = self.last_step()
        self.second.cut()
        began = time.monotonic()
        self.tell("silent cut: the job ended with 76", self.ended(job, 76, LIMIT_S))
        wait_until(lambda: not self.first.processes() and not self.second.processes(),
                   LIMIT_S + SSH_S, "nothing is left on either node")
        self.tell("silent cut: the ranks of both nodes were gone", time.monotonic() - began)
        self.second.join()
        self.expect_continued(saved)

    def test_a_dead_node_ends_the_job_and_the_same_command_continues_as_the_images_user(self):
        self.death(IMAGE_USER)

    def test_a_dead_node_ends_the_job_and_the_same_command_continues_as_root(self):
        self.death(ROOT)

    def test_a_silent_cut_ends_the_job_and_the_same_command_continues(self):
        self.cut(IMAGE_USER)

    def test_a_launcher_with_restarts_goes_on_when_the_node_is_back(self):
        self.boot(IMAGE_USER)
        job = self.train(restarts=10)
        self.wait_for_step(job, SAVED_EVERY)
        saved = self.last_step()
        self.second.kill_all()
        wait_until(lambda: "attempt 2 of 11" in self.text(), LIMIT_S, "the restart")
        self.second.start()
        self.ended(job, 0, HANG_S)
        self.expect_finished(saved)

    def test_term_on_the_first_node_saves_the_training_of_both(self):
        self.boot(IMAGE_USER)
        job = self.train(restarts=10)
        self.wait_for_step(job, SAVED_EVERY)
        os.kill(nodes.children_of(job.pid)[0], signal.SIGTERM)
        self.tell("TERM: the job ended with 75", self.ended(job, 75, 60))
        saved = self.last_step()
        self.assertIn("stopped by signal 10", self.text())
        self.expect_continued(saved)

    def test_each_node_gets_its_rank_and_the_variables_that_ranks_read(self):
        self.boot(IMAGE_USER)
        job = self.launch("bash", "-c", 'echo "$(hostname) $(id -u) $NCCL_DEBUG ${SECRET:-none}"',
                          environment=["NCCL_DEBUG=a b", "SECRET=c"])
        self.ended(job, 0, 30)
        self.assertIn("node-1 10001 a b c", self.text())  # inherited
        self.assertIn("node-2 10001 a b none", self.text())

    def test_a_users_own_ssh_has_none_of_the_launchers_settings(self):
        self.boot(IMAGE_USER)
        job = self.first.run(["ssh", "-G", "node-2"], self.log)
        self.ended(job, 0, 30)
        settings = dict(line.split(" ", 1) for line in self.text().splitlines() if " " in line)
        self.assertEqual(settings["port"], "22")
        self.assertEqual(settings["batchmode"], "no")
        self.assertEqual(settings["stricthostkeychecking"], "ask")

    def test_the_agent_and_the_arguments_of_a_platform_stay(self):
        # The MPI operator sets plm_rsh_args; another platform may name a program of its own.
        self.boot(IMAGE_USER)
        agent = self.shared / "agent"
        agent.write_text('#!/bin/sh\necho "agent got $*" >&2\n'
                         'exec ssh -F /etc/retina/ssh_config "$@"\n')
        agent.chmod(0o755)
        self.ended(self.launch("hostname", environment=[
            "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=3"]), 0, 30)
        self.assertIn("node-2", self.text())
        self.ended(self.launch("hostname", environment=[
            f"OMPI_MCA_plm_rsh_agent={agent}", "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=3"]),
            0, 30)
        self.assertRegex(self.text(), "agent got .*-o ConnectionAttempts=3")

    def test_a_node_that_is_not_there_yet_is_tried_again(self):
        self.boot(IMAGE_USER)
        self.second.kill_all()
        job = self.launch("hostname", restarts=20)
        wait_until(lambda: "attempt 2 of 21" in self.text(), 30, "the restart")
        self.second.start()
        self.ended(job, 0, 60)
        self.assertIn("node-2", self.text())


if __name__ == "__main__":
    sys.exit(unittest.main())
