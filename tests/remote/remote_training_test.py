"""Training, validation and evaluation on data sets by URL: the bits of a local folder, and no secret in
anything that a job leaves."""
import json
import signal
import subprocess
import sys
import threading
import time
import unittest

import fault_server as faults
from remote_case import BUILD, CLEAN, SECRET, STOPPED, RemoteCase, program

MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
TRAINING = ("--task classify --backbone cifar-cnn --images-per-step 6 --lr 0.001 --warmup-steps 2 "
            "--compute-threads 1 --threads 1 --device cpu --recipe none --log-level debug").split()
STEPS = ["--steps", 4]


class RemoteTraining(RemoteCase):
    def setUp(self):
        super().setUp()
        images = self.room / "images"
        self.run_program("render_classes", "--output", images, "--layout", "folders", "--side", 200,
                         "--train", 12, "--validation", 10)
        for split in ("train", "val"):
            self.run_program("coco-pack", "--format", "folders", "--images", images / split,
                             "--output", self.folder / split, "--shard-size", "64KiB")

    def words(self, output, root, ranks=1, more=STEPS):
        words = [program("retina-train"), "--train", self.with_query(f"{root}/train"), "--validation",
                 self.with_query(f"{root}/val"), "--output", output, *TRAINING, *more]
        if str(root).startswith("http"):
            words += ["--scratch", self.scratch]
        if "--sync-bn" in words:  # which has batch norm
            words[words.index("cifar-cnn")] = "resnet18"
        launch = (f"mpirun -np {ranks} --oversubscribe --bind-to none".split() if ranks > 1 else [])
        return [*launch, *map(str, words)]

    def train(self, output, root, ranks=1, code=0, more=STEPS, **environment):
        done = subprocess.run(self.words(output, root, ranks, more), capture_output=True, text=True, timeout=300,
                              env=CLEAN | MPI | environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def with_query(self, place):
        return f"{place}?sp=r&sig={SECRET}" if str(place).startswith("http") else place

    def test_has_the_bits_of_a_local_set_and_keeps_no_secret(self):
        self.train(self.room / "local", self.folder)
        self.server.faults = [faults.status(503), faults.cut, faults.Request.serve, faults.truncated]
        done = self.train(self.room / "remote", self.server.url)
        both = self.train(self.room / "ranks", self.server.url, ranks=2)
        losses = [[json.loads(line).get("loss")
                   for line in (self.room / run / "metrics.jsonl").read_text().splitlines()]
                  for run in ("local", "remote")]
        self.assertEqual(*losses)
        self.assertIn(f"{self.server.url}/train is a URL: ", done.stderr)
        evaluated = self.run_program(
            "retina-eval", "--model", self.room / "remote", "--data", self.with_query(f"{self.server.url}/val"),
            "--output", self.room / "evaluation", "--device", "cpu", "--scratch", self.scratch, **MPI)
        self.server.fault = lambda request: faults.azure_refusal
        refused = self.train(self.room / "refused", self.server.url, code=66)
        self.expect_error(refused, "may not be read", "AuthenticationFailed")
        self.expect_no_secret(*(text for one in (done, both, evaluated, refused)
                                for text in (one.stdout, one.stderr)))
        self.assertTrue(all(SECRET in request.query for request in self.server.requests))
        self.expect_no_secret_is_kept("config.json", "metrics.jsonl", "report.html", "metrics.json")

    def expect_no_secret_is_kept(self, *some_names, secrets=(SECRET,)):
        """Not in any file below the room, nor in a file's name."""
        kept = [path for path in self.room.rglob("*") if path.is_file()]
        self.assertLessEqual(set(some_names), {path.name for path in kept})
        for path in kept:
            for secret in secrets:
                self.assertNotIn(secret.encode(), path.read_bytes(), path)
                self.assertNotIn(secret, str(path))

    def test_a_stop_while_a_shard_is_awaited_saves_a_checkpoint(self):
        """In the first step and later ones, alone and on two ranks, where others are in the midst of the step."""
        shards = [path.stat().st_size for path in (self.folder / "train").glob("*.lmdb")]
        more = ["--steps", 12, "--checkpoint-every", "1000steps", "--stage-limit", max(shards) + 20000]
        self.train(self.room / "local", self.folder, more=["--steps", 12])
        for ranks, shards_before, options in ((1, 0, []), (1, 24, []), (2, 24, []), (2, 24, ["--sync-bn", "on", "--init", "none"])):
            with self.subTest(ranks=ranks, shards_before=shards_before, options=options):
                output = self.room / f"stopped-{ranks}-{shards_before}-{len(options)}"
                asked, is_silent = [], threading.Event()

                def fault(request):
                    asked.append(request.name)
                    if sum(name.endswith(".lmdb") for name in asked) > shards_before and request.name.endswith(".lmdb"):
                        is_silent.set()
                        return faults.silent
                    return None
                self.server.fault = fault
                words = self.words(output, self.server.url, ranks, [*more, *options])
                with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env=CLEAN | MPI) as job:
                    self.assertTrue(is_silent.wait(120))
                    time.sleep(1)  # for what has come
                    job.send_signal(signal.SIGTERM if ranks == 1 else signal.SIGUSR1)  # as retina-launch does
                    log = job.communicate(timeout=60)[0]
                self.assertEqual(job.returncode, STOPPED, log)
                self.assertEqual(bool(list(output.glob("checkpoint-*.pt"))), shards_before > 0, log)
                self.server.fault = lambda request: None
                self.train(output, self.server.url, ranks, more=[*more, *options])
                self.assertEqual(len(self.losses(output)), 12)
                if ranks == 1:
                    self.assertEqual(self.losses(output), self.losses(self.room / "local"))

    def losses(self, run):
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if "loss" in line]

    def test_failures_keep_no_secret(self):
        """Keys of S3 and a SAS of Azure in the environment: refused, cut off, killed, a full disk, a crash."""
        key, session = "AKIAPLANTED", "session" + SECRET
        places = {
            "s3://bucket/sets": {"AWS_ENDPOINT_URL": self.server.root, "AWS_ACCESS_KEY_ID": key, "AWS_REGION": "here",
                                 "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": session},
            "azure://account/bucket/sets": {"AZURE_STORAGE_ENDPOINT": self.server.root,
                                            "AZURE_STORAGE_SAS_TOKEN": f"sp=r&sig={SECRET}"}}
        temporary = self.room / "temporary"
        temporary.mkdir()
        self.server.prefix = "/bucket/sets"
        refusals = {"s3": faults.s3_refusal, "az": faults.azure_refusal}
        first_shard_dies = [None]

        def kill_at_a_shard(request):
            if request.name.endswith(".lmdb") and first_shard_dies[0]:
                first_shard_dies[0].send_signal(first_shard_dies[1])
                return faults.cut
            return None

        texts = []
        for number, (place, environment) in enumerate(places.items()):
            environment = CLEAN | MPI | environment | {"TMPDIR": str(temporary)}
            words = [program("retina-train"), "--train", f"{place}/train", "--validation", f"{place}/val", *TRAINING, *STEPS,
                     "--scratch", self.scratch, "--output", self.room / f"run-{number}"]
            full = {"LD_PRELOAD": str(BUILD / "lib/retina-faults.so"),
                    "RETINA_FAULTS": f"write=ENOSPC path={self.scratch}"}
            for fault, signal_number, more, codes in (
                    (lambda request: refusals[place[:2]], None, {}, {66}), (lambda request: faults.cut, None, {}, {74}),
                    (lambda request: None, None, full, {74}), (kill_at_a_shard, signal.SIGKILL, {}, {-signal.SIGKILL}),
                    (kill_at_a_shard, signal.SIGSEGV, {}, {-signal.SIGSEGV}), (lambda request: None, None, {}, {0})):
                self.server.fault = fault
                job = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, env=environment | more, cwd=self.room)
                first_shard_dies[:] = [job if signal_number else None, signal_number]
                texts.append(job.communicate(timeout=120)[0])
                self.assertIn(job.returncode, codes, texts[-1])
        for secret in (SECRET, SECRET.replace("+", "%2B").replace("/", "%2F"), key, session):
            self.assertNotIn(secret, "".join(texts))
        self.expect_no_secret_is_kept("config.json", "metrics.jsonl", "checkpoints.json", secrets=(SECRET, key))


if __name__ == "__main__":
    sys.exit(unittest.main())
