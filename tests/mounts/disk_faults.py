"""The four programs on disks that fail, and killed: every call that changes a disk may return an error, take less than
it was given, or be the last one before `kill -9` or a power cut (disk.py). What was promised must hold: one line and
the right exit code; no set, checkpoint, evaluation or model that is called finished and is not whole; the same command
run again ends with the same bits.

RETINA_DISK_FAULTS=1000 injects that many into each program and prints a table; RETINA_FAULT_SEED=N repeats a run and
RETINA_FAULT_KINDS=kill,power-cut limits it to kinds that begin so."""

import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

from disk import Disk

BUILD = Path(os.environ.get("RETINA_BUILD", "build")).resolve()
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
LIMIT_S = 10  # that a fault may cost
CANNOT_CREATE, IO, NO_INPUT = 73, 74, 66
ERRORS = [f"{call}={code}" for code in ("EIO", "ENOSPC", "ESTALE")
          for call in ("open", "write", "fsync", "fsync-folder", "rename", "unlink", "cut", "read", "read-at")
          if code != "ENOSPC" or call in ("open", "write", "fsync", "rename")]
KINDS = ["power-cut", "kill", "power-cut", "tear", "power-cut", "kill-at-a-time", "error", "write=short", "error",
         "fsync=slow"]
READS = 40  # of one run, about
CALLS_OF = {"open": {"open", "mkdir"}}
KILL_THE_CONTINUED_RUN_TOO = .4


class Work:
    """Commands of one program that write below `top`, and what must come of them."""

    def __init__(self, room):
        self.room, self.top = room, room / "disk"
        self.output = self.top / "output"
        self.commands = []

    def prepare(self):
        """Makes the inputs; not part of the measured commands."""

    def begin(self):
        """What is on the disk before."""
        shutil.rmtree(self.top, ignore_errors=True)
        self.top.mkdir()

    def result(self):
        """What must be the same after every fault; {} without one."""

    def problem(self):
        """What is wrong with what is there after a fault; "" when each thing there is what it seems to be."""
        result = self.result()
        return "" if not result or result == self.calm else "what is said to be finished is not whole"

    def problem_of_continuing(self, done):
        """The same of the run that continued what problem() looked at."""
        return ""

    def leftovers(self):
        return [path for path in self.output.rglob("*") if path.suffix in (".tmp", ".old") or path.name == ".packing"]

    @staticmethod
    def program(name, *words):
        return [str(BUILD / "bin" / name), *map(str, words)]

    def run(self, command, **environment):
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT | environment)

    @staticmethod
    def is_well(done):
        return done.returncode == 0

    def must_run(self, *command):
        done = self.run(command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def contents(folder, *, without=()):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock" and path.name not in without}


class Pack(Work):
    options = []

    def prepare(self):
        self.must_run(*self.program("render_scenes", "--output", self.room / "scenes", "--train", 12,
                                    "--validation", 1))
        self.commands = [self.pack()]

    def pack(self, *more):
        scenes = self.room / "scenes"
        return self.program("coco-pack", "--annotations", scenes / "annotations/instances_train2017.json", "--images",
                            scenes / "images/train2017", "--output", self.output, "--shard-size", "64KiB",
                            *self.options, *more)

    def result(self):
        if not (self.output / "manifest.json").exists():
            return {}
        files = contents(self.output, without={"report.html"})  # the set is whole without its page
        return {name: data for name, data in files.items() if not name.startswith(".packing")}

    def problem(self):
        if self.result() and self.run(self.program("coco-pack", "--verify", self.output)).returncode != 0:
            return "--verify refuses a set that is said to be finished"
        return super().problem()


class PackByScratch(Pack):
    def prepare(self):
        self.options = ["--scratch", self.top / "local"]
        super().prepare()


class PackOverAnother(Pack):
    def prepare(self):
        super().prepare()
        self.must_run(*self.pack("--max-side", 60))
        shutil.copytree(self.output, self.room / "old")
        self.old = self.result()
        self.commands = [self.pack("--overwrite")]

    def begin(self):
        super().begin()
        shutil.copytree(self.room / "old", self.output)

    def problem(self):
        return "" if self.result() == self.old else super().problem()


class PackInParts(Pack):
    def prepare(self):
        super().prepare()
        self.commands = [self.pack("--part", "1/2"), self.pack("--part", "2/2"),
                         self.program("coco-pack", "--merge", self.output)]

    @staticmethod
    def is_well(done):
        """A part of a set that a merge has begun to publish is not packed again."""
        return done.returncode == 0 or (done.returncode == 78 and "hint: run coco-pack --merge" in done.stderr)


class Train(Work):
    options = []
    steps, interval = 3, "1steps"
    STEPS = {"checkpoint-01-00000001.pt": 1, "checkpoint-01.pt": 2, "checkpoint-02-00000003.pt": 3}

    def prepare(self):
        images = self.room / "images"
        self.must_run(*self.program("render_classes", "--output", images, "--layout", "folders", "--side", 60,
                                    "--train", 12, "--validation", 10))
        for split in ("train", "val"):
            self.must_run(*self.program("coco-pack", "--format", "folders", "--images", images / split, "--output",
                                        self.room / split))
        self.commands = [self.train(self.output)]

    def train(self, run):
        return self.program(
            "retina-train", "--train", self.room / "train", "--validation", self.room / "val", "--output", run,
            *"--task classify --backbone cifar-cnn --images-per-step 6 --lr 0.001 --warmup-steps 2".split(),
            *"--compute-threads 1 --threads 1 --device cpu --recipe none --optimizer sgd --keep 2".split(),
            "--steps", self.steps, "--checkpoint-every", self.interval, *self.options)

    def result(self):
        last = next(self.output.glob(f"checkpoint-*-{self.steps:08}.pt"), None)  # the index is a hint
        if last is None or not (self.output / "report.html").exists():
            return {}
        with (self.output / "metrics.jsonl").open() as lines:
            losses = [line.get("loss") for line in map(json.loads, lines)]
        return {"losses": losses, "tensors": self.tensors(last.name)}

    def tensors(self, checkpoint):
        with zipfile.ZipFile(self.output / checkpoint) as file:
            return {name.split("/", 1)[1]: file.read(name) for name in file.namelist() if "/data/" in name}

    def problem(self):
        self.newest = 0
        for path in self.output.glob("checkpoint-*.pt"):
            self.tensors(path.name)  # with their checksums
            self.newest = max(self.newest, self.STEPS[path.name])
        return ""

    def problem_of_continuing(self, done):
        begun = re.search(r"continuing from .*/(.*)", done.stderr)
        step = self.STEPS[begun.group(1)] if begun else 0 if "epoch 1, step 2" in done.stderr else 3
        return "" if step == self.newest else f"continued from step {step}, not {self.newest}"


class TrainByScratch(Train):
    def prepare(self):
        self.options = ["--scratch", self.top / "local"]
        super().prepare()


class WithRun(Train):
    def prepare(self):
        super().prepare()
        self.must_run(*self.train(self.room / "run"))

    def problem(self):
        return Work.problem(self)

    def problem_of_continuing(self, done):
        return ""


class Evaluate(WithRun):
    def prepare(self):
        super().prepare()
        self.commands = [self.program("retina-eval", "--model", self.room / "run", "--data", self.room / "val",
                                      "--output", self.output, "--device", "cpu", "--threads", 1)]

    def result(self):
        done = (self.output / "metrics.json").exists()
        return contents(self.output, without={"report.html"}) if done else {}


class Convert(WithRun):
    def prepare(self):
        super().prepare()
        self.commands = [self.program("retina-convert", "--checkpoint", self.room / "run", "--output",
                                      self.output / "model.onnx", "--verification-images", 1)]

    def result(self):
        model = self.output / "model.onnx"
        return {"model": model.read_bytes()} if model.exists() else {}


class Faults:
    """Injects faults into one Work."""

    def __init__(self, work, seed):
        self.work, self.seed = work, seed
        self.results = []  # (kind, seconds)
        work.prepare()
        work.begin()
        self.disk, record = Disk(work.top), work.room / "record"
        for command in work.commands:
            work.must_run(*self.faulty(f"any=record path={work.top}", command, record=record))
        work.calm = work.result()
        self.disk.replay(record)
        record.unlink()
        assert work.calm
        changes = self.disk.changes
        everything = self.disk.after(len(changes), "all", random.Random(1))[1]
        assert everything == {str(path): path.read_bytes() for path in work.top.rglob("*") if path.is_file()}
        self.counts = {call: sum(change.call in CALLS_OF.get(call, {call}) for change in changes)
                       for call in ("open", "write", "fsync", "fsync-folder", "rename", "unlink", "cut")}
        self.counts |= {"read": READS, "read-at": READS, "any": sum(self.counts.values())}
        work.begin()
        began = time.time()
        for command in work.commands:
            work.must_run(*command)
        self.calm_seconds = time.time() - began
        assert work.result() == work.calm

    @staticmethod
    def faulty(rules, command, record="", seen=""):
        return ["env", f"LD_PRELOAD={BUILD}/lib/retina-faults.so", f"RETINA_FAULTS={rules}",
                f"RETINA_FAULTS_RECORD={record}", f"RETINA_FAULTS_SEEN={seen}", *command]

    def inject(self, number, kinds):
        """Returns what was wrong, or ""."""
        source = random.Random(f"{self.seed} {number}")
        self.work.begin()
        kind = source.choice(kinds)
        if kind == "error":
            kind = source.choice(ERRORS)
        inject = {"power-cut": self.cut_power, "kill": self.kill, "tear": self.kill,
                  "kill-at-a-time": self.kill}.get(kind, self.break_calls)
        words, wrong = inject(kind, source)
        wrong = wrong or self.run_again()
        return f"fault {number}, {words}: {wrong}" if wrong else ""

    def cut_power_at_the_end(self):
        """What the programs said was done stays, whatever else is lost."""
        self.disk.put(self.disk.after(len(self.disk.changes), "none", random.Random(0)))
        wrong = self.work.problem() or ("" if self.work.result() == self.work.calm else "what was done is lost")
        return "power cut at the end: " + wrong if wrong else self.run_again()

    # Each returns what happened, and what was wrong with what was left.

    def cut_power(self, kind, source):
        count = source.randrange(len(self.disk.changes) + 1)
        mode = source.choice(["none", "all", "one", "one-kept", "half", "half"])
        self.disk.put(self.disk.after(count, mode, source))
        last = self.disk.changes[count - 1] if count else None
        words = f"power cut after call {count}" + (f" ({last.call} {last.to or last.path}), {mode}" if last else "")
        began = time.time()
        wrong = self.work.problem()
        self.results.append((kind, time.time() - began))
        return words, wrong

    def kill(self, kind, source):
        """Kills it, and now and then what continues it."""
        words = []
        while True:
            for command in self.work.commands:
                after = self.draw_call("any", source)
                seconds = source.random() * self.calm_seconds / len(self.work.commands)
                if kind == "kill-at-a-time":
                    words.append(f"killed after {seconds:.3f} s")
                    done = self.run_for(seconds, command)
                else:
                    words.append(f"{kind} at call {after}")
                    done = self.work.run(self.faulty(f"any={kind} after={after} path={self.work.top}", command))
                killed = done.returncode == -signal.SIGKILL
                self.results.append((kind if killed else "ended before the kill", 0))
                wrong = self.work.problem() if killed or self.work.is_well(done) else f"exit code {done.returncode}"
                if wrong:
                    return words, f"{wrong}\n{done.stderr}"
                if killed:
                    break
            if not killed or source.random() >= KILL_THE_CONTINUED_RUN_TOO:
                return words, ""

    def draw_call(self, call, source):
        return source.randrange(1 + self.counts[call] // len(self.work.commands))

    @staticmethod
    def run_for(seconds, command):
        with tempfile.TemporaryFile("w+") as errors:
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=ENVIRONMENT, process_group=0)
            time.sleep(seconds)
            os.killpg(job.pid, signal.SIGKILL)  # a job that has ended is a zombie until it is waited for
            code = job.wait()
            errors.seek(0)
            return subprocess.CompletedProcess(command, code, stderr=errors.read())

    def break_calls(self, kind, source):
        call, effect = kind.split("=")
        lasting = source.random() < .5 and effect != "slow"
        after = self.draw_call(call, source)
        place = self.work.room if call.startswith("read") else self.work.top
        rule = f"{kind} after={after} path={place}" + ("" if lasting else " times=1")
        seen = self.work.room / "seen"
        codes = {"slow": {0}, "short": {0, IO}}.get(effect, {0, IO} | {"open": {CANNOT_CREATE}}.get(call, set()))
        if call.startswith("read"):
            codes = codes | {NO_INPUT}
        for command in self.work.commands:
            seen.unlink(missing_ok=True)
            began = time.time()
            done = self.work.run(self.faulty(rule, command, seen=seen))
            seconds = time.time() - began
            fired = seen.exists() and int(seen.read_text().split()[1]) > 0
            self.results.append((kind if fired else "ended before the fault", seconds))
            errors = re.findall(r"(?m)^[a-z-]+: error: .*", done.stderr)
            wrong = (f"exit code {done.returncode}" if done.returncode not in codes else
                     f"{len(errors)} errors" if len(errors) != (done.returncode != 0) else
                     f"it took {seconds:.1f} s" if seconds > LIMIT_S + self.calm_seconds else self.work.problem())
            if wrong:
                return rule, f"{wrong}\n{done.stderr}"
            if done.returncode != 0:
                break
        else:
            if self.work.result() != self.work.calm:
                return rule, f"ended well, and with other bits\n{done.stderr}"
        return rule, ""

    def run_again(self):
        for command in self.work.commands:
            done = self.work.run(command)
            wrong = self.work.problem_of_continuing(done) if self.work.is_well(done) else f"exit code {done.returncode}"
            if wrong:
                return f"run again: {wrong}\n{done.stderr}"
        if self.work.result() != self.work.calm:
            return f"run again: other bits\n{done.stderr}"
        return f"run again: {self.work.leftovers()} are left" if self.work.leftovers() else ""

    def table(self):
        lines = [f"{type(self.work).__name__}, seed {self.seed}",
                 f"{'kind':24} {'count':>6} {'median s':>9} {'worst s':>8}"]
        for kind in sorted(dict(self.results)):
            times = [seconds for other, seconds in self.results if other == kind]
            lines.append(f"{kind:24} {len(times):6} {statistics.median(times):9.2f} {max(times):8.2f}")
        return "\n".join(lines)


class DiskFaults(unittest.TestCase):
    def expect_what_was_promised(self, kind_of_work, default_count):
        count = int(os.environ.get("RETINA_DISK_FAULTS", default_count))
        seed = int(os.environ.get("RETINA_FAULT_SEED", random.randrange(10**6)))
        kinds = [kind for kind in KINDS if kind.startswith(tuple(os.environ.get("RETINA_FAULT_KINDS", "").split(",")))]
        wrong = []
        with tempfile.TemporaryDirectory() as room:
            faults = Faults(kind_of_work(Path(room).resolve()), seed)
            for number in range(-1, count):
                problem = faults.cut_power_at_the_end() if number < 0 else faults.inject(number, kinds)
                if problem:
                    wrong.append(problem)
                    print(problem, flush=True)
        print(faults.table(), flush=True)
        self.assertEqual(len(wrong), 0, f"{len(wrong)} of {count} faults, seed {seed}")

    def test_packing(self):
        self.expect_what_was_promised(Pack, 20)

    def test_packing_by_a_scratch_folder(self):
        self.expect_what_was_promised(PackByScratch, 10)

    def test_packing_over_another_set(self):
        self.expect_what_was_promised(PackOverAnother, 10)

    def test_packing_in_parts(self):
        self.expect_what_was_promised(PackInParts, 10)

    def test_training(self):
        self.expect_what_was_promised(Train, 4)

    def test_training_by_a_scratch_folder(self):
        self.expect_what_was_promised(TrainByScratch, 2)

    def test_evaluation(self):
        self.expect_what_was_promised(Evaluate, 3)

    def test_conversion(self):
        self.expect_what_was_promised(Convert, 3)


if __name__ == "__main__":
    sys.argv[0] = "disk_faults.py"
    unittest.main()
