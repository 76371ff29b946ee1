"""docker/retina-launch with small programs under a real mpirun, then with the real retina-train:
exit codes, restarts, stops at any moment, as a container's first process."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import small_training

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "docker/retina-launch"
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
PID_1 = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
HAS_TRAINER = all((BUILD / "bin" / name).exists() for name in small_training.PROGRAMS)
OWN_CODES = [1, 64, 65, 66, 69, 70, 73, 74, 78]  # that no restart changes

TRAIN = [*small_training.TRAIN, "--checkpoint-every", "100000steps", "--steps-per-epoch", 100000]


def missing(*tools):
    return ", ".join(tool for tool in tools if not shutil.which(tool))


def has_pid_namespaces():
    return subprocess.run([*PID_1, "true"], capture_output=True).returncode == 0


@unittest.skipIf(missing("mpirun", "dumb-init"), "not installed: " + missing("mpirun", "dumb-init"))
class Launch(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("OMPI_", "CUDA_VISIBLE", "RETINA_LAUNCH"))}

    def program(self, text, name="program"):
        """A script in the room; `again N` in it counts the runs and is true in the first N."""
        again = f"""again() {{
  echo >>"{self.room}/runs"; [ "$(wc -l <"{self.room}/runs")" -le "$1" ]
}}
"""
        path = self.room / name
        path.write_text(text if text.startswith("#!") else "#!/bin/bash\n" + again + text)
        path.chmod(0o755)
        return path

    def saver(self, ranks=1, seconds=2, code=75):
        """Works on for `seconds` after the signal, which mpirun must let it, and ends with `code`.
        As the trainer's ranks do, it leaves when all have saved: mpirun kills who is left then."""
        saved = self.room / "saved"
        shutil.rmtree(saved, ignore_errors=True)
        saved.mkdir()
        return self.program(f"""#!/bin/bash
save() {{
  trap '' USR1
  sleep {seconds}
  echo "saved ${{OMPI_COMM_WORLD_RANK:=0}}"
  touch "{saved}/$OMPI_COMM_WORLD_RANK"
  until [ "$(ls "{saved}" | wc -l)" -ge {ranks} ]; do sleep 0.02; done
  exit {code}
}}
trap save USR1
echo ready
while true; do sleep 0.02; done
""")

    def runs(self):
        return len((self.room / "runs").read_text().splitlines())

    def launch(self, *words, timeout=60, **environment):
        return subprocess.run([str(word) for word in (SCRIPT, *words)], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=timeout,
                              env=self.environment | environment)

    def start(self, *words, before=()):
        """Starts it in a process group of its own; `self.output` collects both streams."""
        self.output = self.room / "output"
        with open(self.output, "ab") as output:
            process = subprocess.Popen([str(word) for word in (*before, SCRIPT, *words)],
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       env=self.environment, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        for line in self.left_over():
            os.kill(int(line.split()[0]), signal.SIGKILL)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def left_over(self):
        """Processes that run something of this test's room."""
        lines = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if f"{self.room}/" in words:
                lines.append(f"{process.name} {words}")
        return lines

    def wait_for(self, text, count=1):
        end = time.monotonic() + 60
        while self.output.read_text().count(text) < count:
            self.assertLess(time.monotonic(), end, f"no {text!r} in {self.output.read_text()}")
            time.sleep(0.01)

    def wait_for_trap(self, process):
        """Until the script hears signals: before that one ends it as it would end any program."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        end = time.monotonic() + 60
        caught = 0
        while not caught & 1 << signal.SIGUSR1 - 1:
            self.assertLess(time.monotonic(), end, "the script does not start")
            time.sleep(0.001)
            for child in children.read_text().split():
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                caught = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)

    def ended(self, process):
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            self.fail(f"hangs: {self.output.read_text()}")

    def expect(self, done, code, *fragments):
        self.assertEqual(done.returncode, code, done.stderr)
        for fragment in fragments:
            self.assertIn(fragment, done.stderr)

    def hosts(self, text):
        path = self.room / "hosts"
        path.write_text(text)
        return path

    # Exit codes

    def test_our_own_codes_pass_and_are_final(self):
        for code in [0, *OWN_CODES]:
            with self.subTest(code):
                program = self.program(f"again 1; exit {code}")
                self.expect(self.launch("--back-off", "0.01", "--", program), code)
                self.assertEqual(self.runs(), 1)
                (self.room / "runs").unlink()

    def test_our_own_codes_pass_through_mpirun(self):
        for code in (0, 78):
            with self.subTest(code):
                done = self.launch("--ranks", 2, "--restarts", 0, "--", "bash", "-c",
                                   f"exit {code}")
                self.expect(done, code)

    def test_death_by_a_signal_is_76(self):
        for ranks in (1, 2):
            for name in ("KILL", "SEGV"):
                with self.subTest(name, ranks=ranks):
                    program = self.program('[ "${OMPI_COMM_WORLD_RANK:-1}" = 1 ] && '
                                           f"kill -{name} $$; sleep 20")
                    done = self.launch("--ranks", ranks, "--restarts", 0, "--", program)
                    number = 128 + getattr(signal, f"SIG{name}")
                    self.expect(done, 76, "ended with 76", f"it said {number}")

    def test_a_node_that_cannot_be_reached_is_76(self):
        done = self.launch("--hostfile", self.hosts("nowhere.invalid slots=1\n"), "--restarts", 1,
                           "--back-off", "0.01", "--", "true")
        self.expect(done, 76, "attempt 2 of 2 in", "no restart left of 1 in a row")

    # Restarts

    def test_75_and_76_are_restarted_until_the_end(self):
        for code in (75, 76):
            with self.subTest(code):
                program = self.program(f"again 2 && exit {code}; exit 0")
                done = self.launch("--back-off", "0.01", "--", program)
                self.expect(done, 0, "attempt 2 of 11 in", "attempt 3 of 11 in",
                            f"ended with {code}")
                self.assertEqual(self.runs(), 3)
                (self.room / "runs").unlink()

    def test_a_rank_that_dies_is_restarted(self):
        program = self.program('[ "$OMPI_COMM_WORLD_RANK" = 0 ] && exit 0; '
                               "again 1 && kill -9 $$; exit 0")
        done = self.launch("--ranks", 2, "--back-off", "0.01", "--", program)
        self.expect(done, 0, "it said 137")

    def test_the_limit_ends_with_the_last_code(self):
        program = self.program("again 2 && exit 75; exit 76")
        done = self.launch("--restarts", 2, "--back-off", "0.01", "--", program)
        self.expect(done, 76, "no restart left of 2 in a row")
        self.assertEqual(self.runs(), 3)

    def test_the_pause_doubles_each_time(self):
        done = self.launch("--restarts", 4, "--back-off", "0.05", "--", "bash", "-c", "exit 75")
        pauses = [float(text) for text in re.findall(r"in ([\d.]+) s:", done.stderr)]
        self.assertEqual(len(pauses), 4, done.stderr)
        for pause, longest in zip(pauses, (0.05, 0.1, 0.2, 0.4)):
            self.assertLessEqual(pause, longest)
            self.assertGreaterEqual(pause, 0.74 * longest)  # less up to a quarter, by chance

    def test_an_attempt_that_lasted_starts_the_count_anew(self):
        program = self.program("sleep 0.5; again 3 && exit 75; exit 0")
        self.expect(self.launch("--restarts", 1, "--back-off", "0.01", "--healthy-after", "0.3",
                                "--", program), 0)
        (self.room / "runs").unlink()
        self.expect(self.launch("--restarts", 1, "--back-off", "0.01", "--", program), 75)

    # Stops

    def test_term_lets_all_ranks_save_and_ends_with_75(self):
        for send in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(send.name):
                process = self.start("--ranks", 2, "--", self.saver(2))
                self.wait_for("ready", 2)
                process.send_signal(send)
                self.assertEqual(self.ended(process), 75, self.output.read_text())
                self.assertEqual(sorted(re.findall("saved .", self.output.read_text())),
                                 ["saved 0", "saved 1"])
                self.assertIn("stopped by a signal: ended with 75", self.output.read_text())
                self.assertEqual(self.left_over(), [])
                self.output.unlink()

    def test_a_stop_that_kills_mpirun_at_its_end_is_75(self):
        bin_folder = self.room / "bin"
        bin_folder.mkdir()
        self.program("#!/bin/bash\necho ready\nexec sleep 60\n", "bin/mpirun")
        self.environment["PATH"] = f"{bin_folder}:{self.environment['PATH']}"
        process = self.start("--ranks", 2, "--", "true")
        self.wait_for("ready")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ended(process), 75, self.output.read_text())

    def test_an_interrupt_at_the_keyboard_does_the_same(self):
        process = self.start("--ranks", 2, "--", self.saver(2))
        self.wait_for("ready", 2)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.ended(process), 75, self.output.read_text())
        self.assertEqual(self.output.read_text().count("saved"), 2)

    def test_signals_at_once_are_one_stop(self):
        program = self.program("trap 'echo told; told=1' USR1; echo ready; "
                               'until [ "$told" ]; do sleep 0.02; done; sleep 0.3; exit 75')
        for stop in range(1, 21):
            process = self.start("--", program)
            self.wait_for("ready", stop)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.killpg(process.pid, number)
            self.wait_for("told", stop)
            process.terminate()
            self.assertEqual(self.ended(process), 75, self.output.read_text())
            self.assertEqual(self.output.read_text().count("told"), stop)

    def test_one_process_is_stopped_without_mpirun_and_what_it_ends_with_is_kept(self):
        for code, expected in ((75, 75), (1, 76), (0, 0)):
            process = self.start("--", self.saver(seconds=0.3, code=code))
            self.wait_for("ready")
            process.terminate()
            self.assertEqual(self.ended(process), expected)
            self.assertIn("saved", self.output.read_text())
            self.output.unlink()

    def test_a_stop_at_any_moment_ends_with_75_or_76_and_leaves_nothing(self):
        program = self.saver(seconds=0)
        seed = random.randrange(1 << 30)
        moments = random.Random(seed)
        for _ in range(10):
            delay = moments.uniform(0.02, 0.6)
            with self.subTest(seed=seed, delay=delay):
                process = self.start("--ranks", 2, "--", program)
                self.wait_for_trap(process)
                time.sleep(delay)
                process.terminate()
                self.assertIn(self.ended(process), (75, 76), self.output.read_text())
                self.assertNotIn("attempt 2", self.output.read_text())
                self.assertEqual(self.left_over(), [])

    def test_ranks_that_missed_the_stop_are_told_again(self):
        program = self.program("trap '' USR1; echo deaf; sleep 1; "
                               "trap 'exit 75' USR1; while true; do sleep 0.05; done")
        process = self.start("--", program)
        self.wait_for("deaf")
        process.terminate()
        self.assertEqual(self.ended(process), 75, self.output.read_text())

    def test_a_stop_during_the_pause_ends_at_once_with_the_last_code(self):
        process = self.start("--back-off", 400, "--", "bash", "-c", "kill -9 $$")
        self.wait_for("attempt 2 of 11 in")
        pause = float(re.search(r"in ([\d.]+) s:", self.output.read_text())[1])
        self.assertGreaterEqual(pause, 225)
        self.assertLessEqual(pause, 300)  # the longest
        process.terminate()
        self.assertEqual(self.ended(process), 76, self.output.read_text())

    # The number of ranks

    def test_our_trainer_and_evaluation_learn_how_many_ranks_there_are(self):
        hosts = self.hosts("# two\n\nlocalhost slots=2  # here\n")
        for name in ("retina-train", "retina-eval"):
            program = self.program('echo "got $*"', name)
            done = self.launch("--hostfile", hosts, "--", program, "--seed", 1)
            self.assertEqual(done.stdout.splitlines(), ["got --seed 1 --expect-ranks 2"] * 2)
            done = self.launch("--ranks", 1, "--", program, "--expect-ranks", 8)
            self.assertEqual(done.stdout, "got --expect-ranks 8\n")
        done = self.launch("--hostfile", hosts, "--", self.program('echo "got $*"'), "x")
        self.assertEqual(done.stdout.splitlines(), ["got x"] * 2)

    def test_what_data_sets_by_url_need_reaches_the_other_nodes(self):
        """Every variable that their code reads, and libcurl's own."""
        read = {name for path in (SOURCE / "shared/remote").glob("*.cpp")
                for name in re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', path.read_text())}
        self.assertLessEqual({"AZURE_CLIENT_ID", "AWS_REGION", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}, read)
        names = read | {"http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY",
                        "TMPDIR"}
        self.program('printf "%s\\n" "$@"', "mpirun")
        done = self.launch("--hostfile", self.hosts("localhost slots=2\n"), "--", self.program("true"),
                           PATH=f"{self.room}:{os.environ['PATH']}", **dict.fromkeys(names, "/tmp"))
        given = re.findall(r"^-x\n(.*)", done.stdout, re.M)
        self.assertLessEqual(names, set(given), done.stderr)

    def test_without_a_host_file_there_is_a_rank_for_each_gpu(self):
        self.program("printf 'GPU %d: a (UUID: b)\\n' 0 1 2", "nvidia-smi")
        program = self.program('echo "$*"', "retina-train")
        path = f"{self.room}:{os.environ['PATH']}"
        for environment, ranks in (({}, 3), ({"CUDA_VISIBLE_DEVICES": "1"}, 1),
                                   ({"CUDA_VISIBLE_DEVICES": ""}, 1)):
            done = self.launch("--", program, PATH=path, **environment)
            self.assertEqual(done.stdout.splitlines(), [f"--expect-ranks {ranks}"] * ranks,
                             done.stderr)

    def test_hosts_without_slots_share_the_ranks_evenly(self):
        hosts = self.hosts("localhost\n")
        self.expect(self.launch("--hostfile", hosts, "--", "true"), 78, "give --ranks")
        done = self.launch("--hostfile", hosts, "--ranks", 3, "--", "echo", "here")
        self.assertEqual(done.stdout.count("here"), 3, done.stderr)
        hosts = self.hosts("localhost\nelsewhere\n")
        self.expect(self.launch("--hostfile", hosts, "--ranks", 3, "--", "true"), 78, "2 hosts")

    def test_a_host_file_that_cannot_be_meant_is_refused(self):
        for text, code in (("# nobody\n", 65), ("a slots=2\nb\n", 65), ("a slots=2\n", 78)):
            with self.subTest(text):
                done = self.launch("--hostfile", self.hosts(text), "--ranks", 3, "--", "true")
                self.expect(done, code, "hosts: ")
        self.expect(self.launch("--hostfile", self.room / "none", "--", "true"), 66, "no such")

    def test_another_number_than_expected_is_refused(self):
        done = self.launch("--ranks", 2, "--expect-ranks", 8, "--", "true")
        self.expect(done, 78, "got 2, want 8")

    # The command line

    def test_a_wrong_command_line_is_64(self):
        for words in ([], ["--"], ["true"], ["--rank", "2", "--", "true"], ["--ranks"],
                      ["--ranks", "two", "--", "true"], ["--ranks", "0", "--", "true"],
                      ["--back-off", "-1", "--", "true"], ["--restarts", "", "--", "true"],
                      ["--hostfile", "", "--", "true"], ["--hostfile=", "--", "true"]):
            with self.subTest(words):
                self.expect(self.launch(*words), 64, "retina-launch: error: ")

    def test_every_rank_knows_whether_it_may_be_restarted(self):
        program = self.program('echo "got ${RETINA_LAUNCH_RESTARTS-none}"')
        for words, restarts in (([], 10), (["--restarts", 3], 3), (["--restarts", 0], "none")):
            done = self.launch("--hostfile", self.hosts("localhost slots=2\n"), *words, "--", program,
                               RETINA_LAUNCH_RESTARTS="7")
            self.assertEqual(done.stdout.splitlines(), [f"got {restarts}"] * 2, done.stderr)

    @unittest.skipUnless(HAS_TRAINER, f"no retina-train in {BUILD}/bin")
    def test_an_afresh_that_each_restart_would_repeat_is_refused(self):
        trainer = [BUILD / "bin/retina-train", "--train", "shards", "--output", "run", "--check-args"]
        config = self.room / "job.json"
        afresh = [[*trainer, "--overwrite"], ["sh", "-c", '"$@" --overwrite', "sh", *trainer]]
        other = [trainer]
        for text in ('{"overwrite":true}', '{"seed": 1, "overwrite" :\n  true}',
                     '{"over\\u0077rite": "true"}', '{"seed": 1, "overwrite": false}',
                     '{"scratch": "\\"overwrite\\": true"}', '{"overwrite": null}'):
            path = self.room / f"job-{len(afresh) + len(other)}.json"
            path.write_text(text)
            (afresh if json.loads(text).get("overwrite") else other).append([*trainer, "--config", path])
        for words, code in [(words, 78) for words in afresh] + [(words, 0) for words in other]:
            with self.subTest(words=words):
                self.expect(self.launch("--", *words), code, *["--restarts 0"] * (code == 78))
                self.expect(self.launch("--restarts", 0, "--", *words), 0)

    def test_what_is_not_installed_is_named(self):
        tools = self.room / "tools"
        tools.mkdir()
        for tool in ("bash", "dirname", "id", "nproc", "setsid"):
            (tools / tool).symlink_to(shutil.which(tool))
        self.expect(self.launch("--", "bash", PATH=str(tools)), 69, "dumb-init: not installed")
        (tools / "dumb-init").symlink_to(shutil.which("dumb-init"))
        self.expect(self.launch("--ranks", 2, "--", "bash", PATH=str(tools)), 69,
                    "mpirun: not installed")
        self.expect(self.launch("--", "no-such-program"), 69, "no-such-program: no such program")

    # As PID 1 of a container

    @unittest.skipUnless(has_pid_namespaces(), "no process namespaces here")
    def test_as_pid_1_it_leaves_no_dead_children(self):
        program = self.program("(sleep 0.1 &); sleep 0.6; grep -l '^State:.*Z' /proc/[0-9]*/status")
        done = subprocess.run([*PID_1, SCRIPT, "--", program],
                              capture_output=True, text=True, env=self.environment, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)  # grep found none

    def first_process(self, outer):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            children = pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
            if children:
                return int(children.split()[0])
            time.sleep(0.01)
        self.fail("unshare has started nothing")

    @unittest.skipUnless(has_pid_namespaces(), "no process namespaces here")
    @unittest.skipUnless(HAS_TRAINER, f"no retina-train in {BUILD}/bin")
    def test_the_trainer_as_pid_1_saves_on_term_and_finishes_when_run_again(self):
        shards, run = self.room / "shards", self.room / "run"
        small_training.pack(BUILD, self.room)
        trainer = [BUILD / "bin/retina-train", "--train", shards, "--output", run, *TRAIN]
        process = self.start("--ranks", 2, "--", *trainer, "--steps", 100000, before=PID_1)
        metrics = run / "metrics.jsonl"
        end = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
            self.assertIsNone(process.poll(), self.output.read_text())
            self.assertLess(time.monotonic(), end, self.output.read_text())
            time.sleep(0.05)
        self.assertEqual(list(run.glob("checkpoint-*.pt")), [])
        os.kill(self.first_process(process), signal.SIGTERM)
        self.assertEqual(self.ended(process), 75, self.output.read_text())
        saved = json.loads((run / "checkpoints.json").read_text())["last"]
        step = int(re.search(r"-(\d{8})\.pt", saved)[1])
        self.assertGreater(step, 0)
        # Three steps more are the whole run now: the same folder continues, and ends.
        process = self.start("--ranks", 2, "--", *trainer, "--steps", step + 3, before=PID_1)
        self.assertEqual(self.ended(process), 0, self.output.read_text())
        lines = metrics.read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines if '"step_ms"' in line]
        self.assertEqual(steps[-1], step + 3)
        self.assertEqual(steps, sorted(set(steps)))


if __name__ == "__main__":
    sys.exit(unittest.main())
