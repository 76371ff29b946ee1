"""The job files agree: with the programs' own options, with each other and with jobs/job.toml."""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import job_files
from job_files import ROOT, reader_of, stages_of

setUpModule = job_files.render_jobs


@functools.cache
def all_stages():
    return [stage for name in job_files.job_names() for stage in stages_of(name)]


def trainings_of(stages):
    return [stage for stage in stages if stage.program == "retina-train"]


def classifies(stage):
    return stage.file.startswith("jobs/classify/")


# --- The rules: each gives a line for every error -----------------------------------------------
def commands_not_found(path, content):
    named, found = job_files.commands_named(content), len(stages_of(path, content))
    return [] if named == found else [f"{path}: names {named} commands, {found} were taken out"]


def plain(word):
    """The word with a path in the place of its variables."""
    return re.sub(r"\$\{\{[^}]*\}\}|\$\{\w+\}|\$\w+", "/replaced", word)


def refused(stages, programs):
    """Commands that the program's own parser refuses."""
    errors, seen = [], {}
    for stage in stages:
        # A script is not built.
        folder = ROOT / "docker" if stage.program == "retina-weights" else programs
        command = (str(folder / stage.program), *map(plain, stage.words[1:]), "--check-args")
        if command not in seen:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/")
            seen[command] = "" if done.returncode == 0 else \
                done.stderr.strip() or f"ended with {done.returncode}"
        if seen[command]:
            errors.append(f"{stage}: {seen[command]}")
    return errors


def launcher_options(stages):
    """Options of retina-launch that it does not have."""
    text = subprocess.run([ROOT / "docker/retina-launch", "--help"], capture_output=True,
                          text=True, check=True, timeout=60).stdout
    known = set(re.findall(r"--[a-z-]+", text))
    return [f"{stage}: retina-launch has no {word}" for stage in stages for word in stage.launcher
            if word.startswith("--") and word.split("=")[0] not in known]


def ranks_that_differ(stages):
    size = job_files.table()["size"]
    errors = []
    for stage in stages:
        if len(set(stage.counts.values())) != 1:
            errors.append(f"{stage}: want one number of ranks: {stage.counts}")
            continue
        ranks = next(iter(stage.counts.values()))
        if stage.nodes > 1 and (stage.nodes, ranks) != (size["nodes"],
                                                        size["nodes"] * size["gpus_per_node"]):
            errors.append(f"{stage}: {ranks} ranks on {stage.nodes} nodes: not those of job.toml")
        # retina-launch gives it by itself.
        if ranks > 1 and not stage.launcher and not stage.option("--expect-ranks"):
            errors.append(f"{stage}: does not say --expect-ranks")
    return errors


def steps_that_do_not_divide(stages):
    errors = []
    for stage in stages:
        if stage.program != "retina-train":
            continue
        images, ranks = int(stage.option("--images-per-step") or 0), max(stage.counts.values())
        if images == 0 or images % ranks:
            errors.append(f"{stage}: {images} images a step on {ranks} ranks")
    return errors


def images_that_differ(stages):
    """Stages with another image than they want: on this machine the one that is built here."""
    images = job_files.table()["image"]
    errors = []
    for stage in stages:
        want = images["local" if pathlib.PurePath(stage.file).parent.name == "docker" else "name"]
        if stage.image != want:
            errors.append(f"{stage}: image {stage.image}, want {want}")
    for want in images.values():
        name = want.split("/")[-1]
        if name.endswith(":latest") or not re.search(r"[:@]", name):
            errors.append(f"job.toml: {want} names no version")
    return errors


def shared_memory_missing(stages):
    want = job_files.table()["size"]["shm_gib"]
    # Under Slurm it is the node's own: what is started there checks it, where ranks talk at all.
    return [f"{stage}: {stage.shm_gib} GiB of shared memory, want {want}" for stage in stages
            if stage.shm_gib < want
            and not (stage.file.endswith(".sbatch") and set(stage.counts.values()) == {1})]


def is_below(path, prefix):
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def paths_not_mounted(stages):
    errors = []
    for stage in stages:
        words = [word.split("=", 1)[-1] if word.startswith("--") else word
                 for word in stage.launcher + stage.words[1:] + stage.paths]
        for word in words:
            if word.startswith(("/", "$")) and not any(is_below(word, at) for at in stage.mounts):
                errors.append(f"{stage}: {word} is not mounted")
        for option in ("--output", "--repository", "--scratch"):
            word = stage.option(option)
            if word and not any(is_below(word, at) for at, writable in stage.mounts.items()
                                if writable):
                errors.append(f"{stage}: {option} {word} cannot be written there")
    return errors


def at(stage, path):
    """The path with its mount's name replaced by what is mounted."""
    for prefix, place in stage.places.items():
        if is_below(path, prefix):
            return place + path[len(prefix):]
    return path


def inputs_nobody_writes(stages):
    """Stages that read what no stage of the same scheduler's files writes."""
    errors = []
    for folder in {pathlib.PurePath(stage.file).parent for stage in stages}:
        here = [stage for stage in stages if pathlib.PurePath(stage.file).parent == folder]
        written = {at(stage, stage.option("--output") or stage.option("--merge")) for stage in here}
        for stage in here:
            for option in ("--train", "--validation", "--init", "--data", "--model", "--checkpoint"):
                path = stage.option(option)
                if path and not any(is_below(at(stage, path), place) for place in written):
                    errors.append(f"{stage}: {option} {path} is nobody's --output")
    return errors


class JobFilesConsistency(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        job_files.wheel("yaml")

    def programs(self):
        folder = pathlib.Path(os.environ.get("RETINA_BUILD", "")) / "bin"
        if not os.environ.get("RETINA_BUILD"):
            self.skipTest("RETINA_BUILD does not say where the programs were built")
        return folder

    def test_every_command_of_every_job_file_is_taken_out(self):
        readers = {}
        for name in job_files.job_names():
            self.assertEqual(commands_not_found(name, job_files.place_of(name).read_text()), [])
            for stage in stages_of(name):
                readers.setdefault(reader_of(name), set()).add(stage.program)
        # Six formats, and each of them runs all programs.
        self.assertEqual(len(readers), 6)
        self.assertEqual(set(map(frozenset, readers.values())), {frozenset(job_files.PROGRAMS)})

    def test_every_command_is_accepted_by_its_program(self):
        stages = all_stages()
        self.assertGreater(len(stages), 20)
        self.assertEqual(refused(stages, self.programs()), [])
        self.assertEqual(launcher_options(stages), [])

    def test_the_ranks_agree_everywhere(self):
        stages = all_stages()
        self.assertEqual(ranks_that_differ(stages), [])
        self.assertTrue(any(stage.nodes > 1 for stage in stages))

    def test_every_steps_images_divide_among_the_ranks(self):
        self.assertEqual(steps_that_do_not_divide(all_stages()), [])

    def test_the_image_is_the_same_everywhere(self):
        self.assertEqual(images_that_differ(all_stages()), [])

    def test_a_command_on_this_machine_runs_the_image_that_is_built_here(self):
        built = subprocess.run([ROOT / "docker/image.sh", "name"], capture_output=True, text=True,
                               timeout=60, env={name: value for name, value in os.environ.items()
                                                if name != "IMAGE"})
        self.assertEqual(built.returncode, 0, built.stderr)
        local = [stage for stage in all_stages()
                 if pathlib.PurePath(stage.file).parent.name == "docker"]
        self.assertGreater(len(local), 20)
        self.assertEqual({stage.image for stage in local}, {built.stdout.strip()})

    def test_a_training_starts_from_the_weights_that_its_recipe_was_published_with(self):
        lines = (ROOT / "docker/weights.txt").read_text().splitlines()
        files = {line.split()[1]: line.split()[0] for line in lines if not line.startswith("#")}
        trainings = [stage for stage in trainings_of(all_stages()) if not classifies(stage)]
        self.assertGreater(len(trainings), 6)
        for stage in trainings:
            self.assertEqual(stage.option("--recipe"), "torchvision-v2", stage)
            folder, name = stage.option("--init").rsplit("/", 1)
            self.assertEqual(name, "resnet50-11ad3fa6.pt", stage)
            # The same place by the names of the same scheduler, and these weights alone.
            fetching = [other for other in all_stages() if other.program == "retina-weights"
                        and pathlib.PurePath(other.file).parent == pathlib.PurePath(stage.file).parent]
            [output] = {at(other, other.option("--output")) for other in fetching}
            self.assertEqual(at(stage, folder).rstrip("/"), output.rstrip("/"), stage)
            self.assertEqual({other.words[-1] for other in fetching},
                             {files[name.replace(".pt", ".pth")]}, stage)

    def test_classification_starts_from_scratch_with_its_recipes_step(self):
        trainings = [stage for stage in trainings_of(all_stages()) if classifies(stage)]
        # Docker has two, Azure ML two, Batch AI two.
        self.assertEqual(len(trainings), len(trainings_of(all_stages())) - len(trainings))
        for stage in trainings:
            self.assertEqual(stage.option("--recipe"), "imagenet-resnet50", stage)
            self.assertEqual(stage.option("--images-per-step"), "256", stage)
            self.assertIsNone(stage.option("--init"), stage)
        packs = [stage for stage in all_stages()
                 if stage.program == "coco-pack" and not stage.option("--merge")]
        self.assertEqual({stage.option("--format") for stage in packs if classifies(stage)},
                         {"folders"})

    def test_what_follows_a_training_takes_its_run_folder_and_so_its_best_checkpoint(self):
        stages = all_stages()
        followers = [stage for stage in stages if stage.program in ("retina-eval", "retina-convert")]
        self.assertGreater(len(followers), 12)
        for stage in followers:
            trained = {at(other, other.option("--output")) for other in stages
                       if other.program == "retina-train"
                       and pathlib.PurePath(other.file).parent == pathlib.PurePath(stage.file).parent}
            model = stage.option("--model") or stage.option("--checkpoint")
            self.assertEqual({at(stage, model)}, trained, stage)

    def test_shared_memory_is_set_everywhere(self):
        self.assertEqual(shared_memory_missing(all_stages()), [])

    def test_every_path_of_a_command_is_mounted(self):
        self.assertEqual(paths_not_mounted(all_stages()), [])

    def test_what_a_stage_reads_another_one_writes(self):
        self.assertEqual(inputs_nobody_writes(all_stages()), [])

    def test_the_script_in_docker_runs_the_one_in_jobs(self):
        for stage in ("pack", "weights", "train", "eval", "convert"):
            lines = [subprocess.run([ROOT / script, stage, "--data", "/data", "--share", "/share",
                                     "--dry-run"], capture_output=True, text=True, timeout=60)
                     for script in ("docker/run.sh", "jobs/docker/run.sh")]
            self.assertEqual([line.returncode for line in lines], [0, 0], lines[0].stderr)
            self.assertEqual(lines[0].stdout, lines[1].stdout)
            self.assertIn("retina-launch", lines[0].stdout)

    def test_a_job_of_another_size_agrees_too(self):
        with tempfile.TemporaryDirectory() as room:
            subprocess.run([sys.executable, ROOT / "jobs/render.py", "--output", room,
                            "--nodes", "3", "--gpus-per-node", "2",
                            "--image", "registry.example.org/other:2"], check=True, timeout=60)
            table = job_files.table()
            table["size"] |= {"nodes": 3, "gpus_per_node": 2}
            table["image"]["name"] = "registry.example.org/other:2"
            with unittest.mock.patch.object(job_files, "table", lambda: table), \
                    unittest.mock.patch.object(job_files, "RUN_RANKS", 2):
                stages = []
                for name in job_files.job_names():
                    made = pathlib.Path(room) / name.relative_to("jobs")
                    if made.is_file():
                        stages += stages_of(name, made.read_text())
                self.assertGreater(len(stages), 20)
                for rule in (ranks_that_differ, steps_that_do_not_divide, images_that_differ,
                             shared_memory_missing, paths_not_mounted, inputs_nobody_writes):
                    self.assertEqual(rule(stages), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
