"""The sbatch scripts with stand-ins for Slurm's commands: which ends queue a job again."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs/slurm/train.sbatch"

# srun asks each node for its /dev/shm first, then starts the program, which ends with $CODE.
SRUN = """#!/usr/bin/env bash
case " $* " in
  *" df "*) printf '1G-blocks\\n%s\\n' "$SHM" ;;
  *) echo "$@" >"$ROOM/command"; exit "$CODE" ;;
esac
"""
SQUEUE = """#!/usr/bin/env bash
echo "$STATE"
"""
SCONTROL = """#!/usr/bin/env bash
echo "$@" >"$ROOM/requeued"
"""


class SlurmRestart(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        for name, text in (("srun", SRUN), ("squeue", SQUEUE), ("scontrol", SCONTROL)):
            (self.room / name).write_text(text)
            (self.room / name).chmod(0o755)

    def run_script(self, code, **changes):
        environment = os.environ | {
            "PATH": f"{self.room}:{os.environ['PATH']}", "ROOM": str(self.room), "CODE": str(code),
            "SHM": "16", "STATE": "RUNNING", "DATA": "/data", "SHARE": "/share",
            "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2",
            "SLURM_CPUS_PER_TASK": "6"} | changes
        for name in [name for name, value in environment.items() if value == ""]:
            del environment[name]
        (self.room / "requeued").unlink(missing_ok=True)
        return subprocess.run(["bash", SCRIPT], capture_output=True, text=True, env=environment,
                              timeout=60)

    def requeued(self):
        path = self.room / "requeued"
        return path.read_text().split() if path.exists() else None

    def test_a_checkpoint_a_dead_rank_and_a_signal_queue_the_job_again(self):
        for code in (75, 76, 137, 139, 143):
            done = self.run_script(code)
            self.assertEqual((done.returncode, self.requeued()), (code, ["requeue", "7"]))

    def test_an_end_that_another_run_would_repeat_is_final(self):
        for code in (0, 1, 64, 65, 66, 69, 70, 73, 74, 78):
            done = self.run_script(code)
            self.assertEqual((done.returncode, self.requeued()), (code, None))

    def test_restarts_have_a_limit(self):
        self.assertEqual(self.run_script(76, SLURM_RESTART_COUNT="19").returncode, 76)
        self.assertIsNotNone(self.requeued())
        done = self.run_script(76, SLURM_RESTART_COUNT="20")
        self.assertEqual((done.returncode, self.requeued()), (76, None))
        self.assertIn("hint: ", done.stderr)
        self.run_script(76, SLURM_RESTART_COUNT="20", RESTARTS="21")
        self.assertIsNotNone(self.requeued())

    def test_a_cancelled_or_preempted_job_is_left_to_slurm(self):
        for state in ("CANCELLED", "COMPLETING", "PREEMPTED", ""):
            self.assertEqual(self.run_script(75, STATE=state or " ").returncode, 75)
            self.assertIsNone(self.requeued())

    def test_a_small_dev_shm_ends_the_job_before_it_starts(self):
        done = self.run_script(0, SHM="8")
        self.assertEqual(done.returncode, 69)
        self.assertIn("got 8 GiB, want 16", done.stderr)
        self.assertFalse((self.room / "command").exists())

    def test_missing_folders_are_named(self):
        for name in ("DATA", "SHARE"):
            done = self.run_script(0, **{name: ""})
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"error: {name}: is not set", done.stderr)

    def test_the_image_and_the_mounts_go_to_srun(self):
        self.run_script(0, IMAGE="/shared/retina.sqsh", NODE_DISK="/nvme")
        command = (self.room / "command").read_text()
        self.assertIn("--container-image=/shared/retina.sqsh ", command)
        self.assertIn(":/mnt/coco,/share:/mnt/afs_batchai,/nvme:/scratch ", command)
        self.run_script(0)
        self.assertRegex((self.room / "command").read_text(), "--container-image=[^/ ]*#[^# ]* ")


if __name__ == "__main__":
    unittest.main()
