"""jobs/batchai/submit.sh: its dry run, and the whole walk against az_stub.py."""
import copy
import importlib.util
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import az_stub

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
STAGES = ("pack", "train", "eval", "convert")
# What must come after what: the words of each, in the order of the walk.
ORDER = [
    "az --version", "az batchai --help", "azcopy --version", "az login", "az account set",
    "az provider register --namespace Microsoft.BatchAI", "az role assignment create",
    "az group create", "az storage account create", "az storage account keys list",
    "az storage share create", "az storage container create",
    "azcopy sync {data}/annotations", "azcopy sync {data}/train2017", "azcopy sync {data}/val2017",
    "az batchai workspace create", "az batchai experiment create", "az batchai cluster create",
    "az batchai cluster show", "az batchai cluster node list",
    *[f"az batchai job {words}" for stage in STAGES for words in (
        "create --resource-group retina-batchai --workspace retina --experiment coco "
        f"--name {stage}-1", "file stream", "show", "file list")],
    "az storage file list", "az storage file download-batch",
    "az batchai cluster resize --resource-group retina-batchai --workspace retina "
    "--name retina-nodes --target 0",
    "az batchai cluster resize --resource-group retina-batchai --workspace retina "
    "--name retina-nodes --target 2",
    "az batchai job delete", "az batchai cluster delete", "az batchai experiment delete",
    "az batchai workspace delete", "az storage container delete", "az storage share delete",
    "az storage account delete", "az group delete", "az role assignment delete",
]
CHANGING = {"create", "delete", "register", "login", "set", "sync", "resize", "download-batch"}


def is_change(words):
    return bool(CHANGING & set(words))


def out_of_order(lines, order):
    """The first of `order` that does not follow its predecessor, or None."""
    place = 0
    for wanted in order:
        while place < len(lines) and not lines[place].startswith(wanted):
            place += 1
        if place == len(lines):
            return wanted
    return None


@unittest.skipUnless(importlib.util.find_spec("jinja2"), "Jinja2 is missing: make test installs it")
class BatchaiSubmit(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in ("bin", "home/.ssh", "data/annotations", "here"):
            (self.room / folder).mkdir(parents=True)
        for split in ("train2017", "val2017"):
            (self.room / "data" / split).mkdir()
            (self.room / f"data/annotations/instances_{split}.json").write_text("{}")
        (self.room / "home/.ssh/id_rsa.pub").write_text("ssh-rsa AAAA someone\n")
        python = self.room / "bin/python3"  # the one that has Jinja2
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.stub = self.enterContext(az_stub.AzStub())
        self.stub.install(self.room / "bin")
        self.script = JOBS / "batchai/submit.sh"

    def submit(self, *arguments, **environment):
        return subprocess.run(
            [self.script, *arguments], cwd=self.room / "here", capture_output=True, text=True,
            timeout=300, stdin=subprocess.DEVNULL, env={
                "PATH": f"{self.room}/bin:/usr/bin:/bin",
                "HOME": str(self.room / "home")} | environment)

    def walk(self, *arguments, code=0, **environment):
        done = self.submit(
            "--service-exists", "--poll", "0.01", "--data", str(self.room / "data"),
            *([] if "--auto-storage" in arguments else ["--storage-account", "retinatest"]),
            *arguments, **environment)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual(done.stderr.count("submit.sh: error:"), 1, done.stderr)
        return done

    def calls(self):
        return list(self.stub.calls)

    def cloud(self):
        return copy.deepcopy(self.stub.state)

    def set_cloud(self, **facts):
        self.stub.state.update(facts)

    def prepare_cluster(self, **facts):
        """A cluster that is there and idle, so that a step can be tried alone."""
        self.set_cloud(
            logged_in=True, group={"retina-batchai": {"name": "retina-batchai"}},
            storage={"retinatest": {"name": "retinatest", "group": "retina-batchai",
                                    "primaryLocation": "eastus"}},
            share={"batchaicoco": {"name": "batchaicoco", "account": "retinatest"}},
            container={"coco": {"name": "coco", "account": "retinatest"}},
            workspace={"retina": {"name": "retina", "group": "retina-batchai"}},
            experiment={"coco": {"name": "coco"}}, **facts,
            cluster={"retina-nodes": {"name": "retina-nodes", "target": 2, "at": 5, "nodes": 2}})

    def own_jobs(self):
        """The script in a copy of jobs/ that a test may damage."""
        shutil.copytree(JOBS, self.room / "jobs")
        self.script = self.room / "jobs/batchai/submit.sh"
        return self.script

    def plant(self, good, bad):
        script = self.own_jobs()
        text = script.read_text()
        self.assertIn(good, text)
        script.write_text(text.replace(good, bad))

    # --- the dry run

    def dry_run(self, *arguments):
        (self.room / "bin/az").unlink(missing_ok=True)
        (self.room / "bin/azcopy").unlink(missing_ok=True)
        before = sorted(self.room.rglob("*"))
        done = self.submit("--dry-run", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.room.rglob("*")), before)
        return done.stdout.splitlines()

    def test_a_dry_run_prints_the_whole_walk_in_order_and_touches_nothing(self):
        lines = self.dry_run("--subscription", "mine", "all", "scale-up", "clean-up")
        order = [words.format(data="coco") for words in ORDER]
        self.assertIsNone(out_of_order(lines, order))
        planted = order.index("az batchai experiment create")
        order[planted], order[planted - 1] = order[planted - 1], order[planted]
        self.assertIsNotNone(out_of_order(lines, order))

    def test_every_line_of_a_dry_run_is_a_command_that_az_knows(self):
        for variant in ([], ["--auto-storage", "--low-priority", "--vm-size", "STANDARD_NC24R"]):
            lines = self.dry_run(*variant, "all", "scale-up", "status", "logs", "clean-up")
            self.assertGreater(len(lines), 60)
            for line in lines:
                words = shlex.split(line)
                if words[0] == "az" and words[1:] not in (["--version"], ["batchai", "--help"]):
                    az_stub.parse(words[1:])
                self.assertNotIn("password", line)
        with self.assertRaises(az_stub.Refused):
            az_stub.parse(shlex.split("batch job show --name train-1"))
        with self.assertRaises(az_stub.Refused):
            az_stub.parse(shlex.split("batchai workspace create -g group --name retina"))

    # --- the whole walk

    def test_the_walk_does_what_the_dry_run_says(self):
        arguments = ("--subscription", "mine", "all", "scale-up", "clean-up", "--yes")
        done = self.walk(*arguments)
        calls = self.calls()
        self.assertIsNone(out_of_order(
            [" ".join(words) for words in calls],
            [words.format(data=self.room / "data") for words in ORDER]))
        state = self.cloud()
        for kind in ("role", "group", "storage", "share", "container", "workspace", "experiment",
                     "cluster", "job"):
            self.assertEqual(state[kind], {}, f"left behind: {kind}")
        self.check_reports(done)
        self.assertNothingSecret(done)
        # Apart from names that only az knows, both make the same changes in the same order.
        said = self.dry_run(*arguments, "--storage-account", "retinatest",
                            "--data", str(self.room / "data"))
        self.assertEqual(
            [words[:5] for words in map(shlex.split, said) if is_change(words)],
            [words[:5] for words in calls if is_change(words)])

    def check_reports(self, done):
        """What a user sees of providers, nodes, jobs, output, preparation and checkpoints."""
        for line in ("Microsoft.BatchAI: Registering", "2 preparing", "2 idle",
                     "train-1: queued (", "train-1: running (", "2 running",
                     "convert-1: succeeded (", "train-1: stdout-job_prep-tvm-2.txt:"):
            self.assertIn(line, done.stderr)
        for stage in STAGES:
            self.assertIn(f"{stage}-1 stdout.txt: a line", done.stdout)
            self.assertIn(f"{stage}-1 stderr.txt: a line", done.stderr)
        self.assertIn("checkpoint-26.pt", done.stdout)
        fetched = self.room / "here/batchai-results"
        self.assertTrue((fetched / "runs/coco_retinanet/fetched.txt").is_file())
        self.assertTrue((fetched / "node-logs/logs/sub/group/clusters/uuid/fetched.txt").is_file())

    def assertNothingSecret(self, done):
        said = [done.stdout, done.stderr, json.dumps(self.calls())]
        for folder in ("here", "home"):
            said += [file.read_text() for file in (self.room / folder).rglob("*") if file.is_file()]
        for text in said:
            self.assertNotIn("SECRET", text)

    def test_a_second_walk_makes_nothing_again(self):
        self.walk("group", "storage", "workspace", "experiment", "cluster", "pack")
        before = len(self.calls())
        self.walk("group", "storage", "workspace", "experiment", "cluster", "pack")
        made = [" ".join(words[:4]) for words in self.calls()[before:] if is_change(words)]
        self.assertEqual(sorted(set(made) - {"az storage directory create"}),
                         ["az batchai cluster resize"])

    def test_auto_storage_takes_its_account_from_az_and_gives_it_back(self):
        done = self.walk("--auto-storage", "--low-priority", "all")
        lines = [" ".join(words) for words in self.calls()]
        self.assertIsNone(out_of_order(lines, [
            "az batchai cluster create", "az storage account list --resource-group batchaiauto",
            f"azcopy sync {self.room}/data/train2017 https://baiabcdefghijkl.blob.core.windows.net/"
            "batchaicontainer/images/train2017", "az batchai job create"]))
        created = next(words for words in self.calls()
                       if words[1:4] == ["batchai", "cluster", "create"])
        self.assertIn("--use-auto-storage", created)
        self.assertEqual(created[created.index("--vm-priority") + 1], "lowpriority")
        state = self.cloud()
        setup = state["cluster"]["retina-nodes"]["config"]["properties"]["nodeSetup"]
        self.assertNotIn("mountVolumes", setup)
        for thing in (*state["job"].values(), *state["cluster"].values()):
            text = json.dumps(thing["config"])
            self.assertIn("$AZ_BATCHAI_MOUNT_ROOT/auto", text)
            self.assertNotRegex(text, r"MOUNT_ROOT/(coco|afs_batchai)")
        self.assertNothingSecret(done)
        self.walk("--auto-storage", "--clean-up", "--yes")
        self.assertEqual([self.cloud()[kind] for kind in ("group", "storage", "role", "cluster")],
                         [{}] * 4)

    # --- single steps

    def test_clean_up_leaves_what_others_made(self):
        self.prepare_cluster()
        state = self.cloud()
        self.walk("group", "storage", "workspace", "experiment", "cluster", "convert")
        self.walk("--clean-up", "--yes")
        left = self.cloud()
        self.assertEqual(left.pop("job"), {})
        self.assertEqual(left["cluster"].keys(), state["cluster"].keys())
        for kind in ("group", "storage", "share", "container", "workspace", "experiment"):
            self.assertEqual(left[kind], state[kind])

    def test_a_group_that_holds_something_else_stays(self):
        self.set_cloud(logged_in=True)
        self.walk("group", "storage")
        self.set_cloud(other={"mine": {"name": "mine", "group": "retina-batchai"}})
        done = self.walk("--clean-up", "--yes", code=74)
        self.assertIn("holds what was not made here (mine)", done.stderr)
        self.assertEqual(self.cloud()["storage"], {})
        self.set_cloud(other={})
        self.walk("--clean-up", "--yes")
        self.assertEqual(self.cloud()["group"], {})

    def test_clean_up_asks_first(self):
        self.set_cloud(logged_in=True)
        self.walk("group")
        self.assertIn("--yes", self.walk("--clean-up", code=64).stderr)
        self.assertIn("retina-batchai", self.cloud()["group"])

    def test_the_size_reaches_the_job_files(self):
        self.set_cloud(logged_in=True, group={"retina-batchai": {"name": "retina-batchai"}})
        self.walk("storage", "workspace", "experiment", "cluster", "train", "eval",
                  "--nodes", "3", "--gpus-per-node", "2", "--image", "here.example.com/mine:7")
        state = self.cloud()
        cluster = state["cluster"]["retina-nodes"]["config"]["properties"]
        self.assertEqual(cluster["vmSize"], "STANDARD_NC12")
        self.assertEqual(cluster["scaleSettings"]["autoScale"]["maximumNodeCount"], 3)
        for job, nodes, ranks in (("train-1", 3, 6), ("eval-1", 1, 2)):
            properties = state["job"][job]["config"]["properties"]
            self.assertEqual(properties["nodeCount"], nodes)
            self.assertEqual(properties["customMpiSettings"]["processCount"], ranks)
            self.assertIn(f"--expect-ranks {ranks}", properties["customMpiSettings"]["commandLine"])
            self.assertEqual(properties["containerSettings"]["imageSourceRegistry"]["image"],
                             "here.example.com/mine:7")

    def test_the_registry_password_is_in_the_job_alone(self):
        self.prepare_cluster()
        done = self.walk("convert", RETINA_REGISTRY_USERNAME="me",
                         RETINA_REGISTRY_PASSWORD="SECRETREG")
        registry = self.job("convert-1")["containerSettings"]["imageSourceRegistry"]
        self.assertEqual(registry["credentials"], {"username": "me", "password": "SECRETREG"})
        self.assertNothingSecret(done)
        self.walk("pack")
        registry = self.job("pack-1")["containerSettings"]["imageSourceRegistry"]
        self.assertNotIn("credentials", registry)

    def job(self, name):
        return self.cloud()["job"][name]["config"]["properties"]

    def test_the_launcher_can_start_the_training(self):
        self.prepare_cluster()
        self.walk("train", "--custom-toolkit")
        self.assertIn("retina-launch", self.job("train-1")["customToolkitSettings"]["commandLine"])

    def test_a_failed_job_ends_the_walk_with_its_code(self):
        self.prepare_cluster(job_codes={"pack-1": 65})
        done = self.walk("pack", "train", code=65)
        self.assertIn("pack-1: failed", done.stderr)
        self.assertEqual(list(self.cloud()["job"]), ["pack-1"])
        self.set_cloud(job_codes={})
        self.walk("pack")
        self.assertEqual(list(self.cloud()["job"]), ["pack-1", "pack-2"])

    def test_a_lost_node_starts_the_job_again_and_the_limit_ends_it(self):
        self.prepare_cluster(job_codes={"train-1": 75, "train-2": 137, "eval-1": 205, "eval-2": 76})
        done = self.walk("train")
        self.assertIn("train-2: ended with 76; started again (2 of 5)", done.stderr)
        self.assertEqual(self.cloud()["job"]["train-3"]["state"], "succeeded")
        self.walk("eval", "--restarts", "1", code=76)
        self.assertEqual(self.cloud()["job"]["eval-2"]["state"], "failed")

    def test_a_job_that_runs_is_watched_not_submitted(self):
        self.prepare_cluster(job={"train-1": {"name": "train-1", "state": "running", "code": None,
                                              "at": 2, "config": {"properties": {"nodeCount": 2}}}})
        self.assertIn("train-1: running already", self.walk("train").stderr)
        self.assertEqual(list(self.cloud()["job"]), ["train-1"])

    def test_nodes_that_do_not_come_are_told(self):
        self.set_cloud(logged_in=True, cluster_trouble="quota",
                       group={"retina-batchai": {"name": "retina-batchai"}})
        steps = ("storage", "workspace", "experiment", "cluster")
        self.assertIn("Core quota was exceeded", self.walk(*steps, code=69).stderr)
        self.set_cloud(cluster_trouble="unusable")
        self.assertIn("1 nodes are unusable", self.walk("cluster", code=69).stderr)
        self.assertTrue((self.room / "here/batchai-results/node-logs").is_dir())
        self.set_cloud(cluster_trouble="slow")
        done = self.walk("cluster", "--node-wait", "0", code=75)
        self.assertIn("not ready after 0 s", done.stderr)

    def test_an_upload_that_breaks_is_continued_by_the_same_command(self):
        self.prepare_cluster(failing=["azcopy sync"])
        self.assertIn("sends what is missing", self.walk("upload", code=74).stderr)
        self.set_cloud(failing=[])
        self.walk("upload")
        self.assertEqual(len(self.cloud()["role"]), 1)

    def test_a_command_that_az_refuses_stops_the_walk(self):
        self.set_cloud(logged_in=True, failing=["storage account create"])
        done = self.walk("group", "storage", "workspace", code=69)
        self.assertIn("az storage account create: failed (exit 1)", done.stderr)
        self.assertFalse(any("workspace" in words for words in self.calls()))

    # --- what it refuses

    def test_says_that_the_service_is_closed(self):
        done = self.submit("all", "--storage-account", "retinatest")
        self.assertEqual(done.returncode, 69)
        self.assertIn("closed on March 31, 2019", done.stderr)
        self.assertIn("jobs/azureml/README.md", done.stderr)
        self.assertTrue((JOBS / "azureml").is_dir())
        self.assertEqual(self.calls(), [])

    def test_a_wrong_command_line_is_one_line(self):
        for code, arguments in (
                (64, ["--nodez", "2"]), (64, ["--nodes"]), (64, ["--nodes", "0"]), (64, ["trian"]),
                (64, ["--nodes", "two"]), (64, ["--poll", "soon"]), (64, ["--service-exists"]),
                (78, ["--auto-storage", "--storage-account", "a"])):
            done = self.submit(*arguments)
            self.assertEqual(done.returncode, code, (arguments, done.stderr))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(self.submit("--help").returncode, 0)

    def test_what_is_missing_is_told_before_anything_is_made(self):
        self.set_cloud(az_version="2.0.37")
        self.assertIn("az 2.0.37: too old", self.walk("check", code=69).stderr)
        self.set_cloud(az_version="2.0.38", azcopy_version="10.3.0")
        self.assertIn("azcopy 10.3.0: too old", self.walk("check", code=69).stderr)
        self.set_cloud(azcopy_version="10.24.0")
        self.walk("check")
        shutil.rmtree(self.room / "data/val2017")
        self.assertIn("val2017", self.walk("upload", code=66).stderr)
        key = self.room / "home/.ssh/id_rsa.pub"
        key.write_text("ssh-ed25519 AAAA\n")
        self.assertIn("RSA", self.walk("check", code=65).stderr)
        key.unlink()
        self.assertIn("ssh-keygen", self.walk("check", code=66).stderr)
        (self.room / "bin/azcopy").unlink()
        self.assertIn("azcopy", self.walk("check", code=69).stderr)
        self.assertFalse(any(map(is_change, self.calls())))

    def test_a_size_without_a_machine_is_refused(self):
        self.prepare_cluster()
        self.set_cloud(cluster={})
        self.assertIn("--vm-size", self.walk("cluster", "--gpus-per-node", "8", code=78).stderr)
        self.walk("cluster", "--gpus-per-node", "8", "--vm-size", "STANDARD_ND40RS_V2")

    # --- slips that the checks above must catch

    def test_the_slips_of_the_tutorials_would_be_caught(self):
        self.prepare_cluster()
        self.plant("az batchai job show", "az batch job show")
        done = self.walk("pack", "train", code=69)
        self.assertIn("is not in the 'az' command group", done.stderr)
        self.assertEqual(list(self.cloud()["job"]), ["pack-1"])

    def test_a_key_on_a_command_line_would_be_caught(self):
        self.prepare_cluster()
        self.plant('--pattern "$pattern"', '--pattern "$AZURE_STORAGE_KEY"')
        done = self.walk("download")
        with self.assertRaises(AssertionError):
            self.assertNothingSecret(done)

    def test_a_signed_address_in_the_output_would_be_caught(self):
        self.prepare_cluster()
        self.plant('"${stream[@]}" stdout.txt 2>/dev/null &', '"${stream[@]}" stdout.txt &')
        done = self.walk("pack")
        with self.assertRaises(AssertionError):
            self.assertNothingSecret(done)


if __name__ == "__main__":
    sys.exit(unittest.main())
