"""Reads the job files of every scheduler into one shape: what is started where, with what.

    for stage in stages_of("jobs/kubernetes/mpijob.yaml"): stage.words, stage.counts, stage.mounts

A reader for each format, none of them a search by text: the shell scripts are run with stubs in the
place of srun and docker, so that bash itself takes their commands apart.
"""
import atexit
import dataclasses
import importlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = pathlib.Path(__file__).with_name("schemas")
PROGRAMS = ("coco-pack", "retina-weights", "retina-train", "retina-eval", "retina-convert")
ALONE = ("coco-pack", "retina-weights", "retina-convert")  # one process each
INSTALL = "hint: make test installs tests/jobs/requirements.txt into .deps/jobs"
# Where render_jobs() puts the job files of every table; those of jobs/classify are nowhere else.
MADE = pathlib.Path(tempfile.mkdtemp(prefix="job-files-"))
atexit.register(shutil.rmtree, MADE, ignore_errors=True)
# Not job files: the pipeline of this machine has its own tests, the others start nothing.
NOT_JOB_FILES = {"fetch_coco.sh", "job.toml", "job-classify.toml", "render.py"}


def wheel(name):
    """A module of requirements.txt; the test skips where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unittest.SkipTest(f"Python's {name} is missing; {INSTALL}") from None


def schema_errors(document, name, part=""):
    """What the project's own schema of job files, or one of its definitions, finds wrong, a line each. It is strict: a
    field that it does not name is an error, where the services' published schemas let most typos pass."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text()) | ({"$ref": f"#/$defs/{part}"} if part else {})
    kind = wheel("jsonschema").Draft202012Validator
    kind.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in kind(schema).iter_errors(document)]


def tool(name):
    """A program of requirements.txt, never the system's: other versions have other opinions."""
    path = pathlib.Path(sys.executable).parent / name
    if not path.exists():
        raise unittest.SkipTest(f"{name} is missing beside {sys.executable}; {INSTALL}")
    return path


def decoder():
    """Has jobs/serving find the library of the build under test; the test skips where it is not."""
    path = pathlib.Path(os.environ.get("RETINA_BUILD", ROOT / "build")) / "lib/libretina_onnx_guard.so"
    if not path.exists():
        raise unittest.SkipTest(f"{path} is missing; hint: cmake --build build")
    os.environ.setdefault("RETINA_ONNX_GUARD", str(path))


def render_jobs():
    """A test module's setUpModule; the module skips where Jinja2 is missing."""
    wheel("jinja2")
    subprocess.run([sys.executable, ROOT / "jobs/render.py", "--output", MADE], check=True, timeout=60)


def folders_of(scheduler):
    """Where its job files are: those of job.toml, and, after render_jobs(), those of job-classify.toml."""
    return [ROOT / "jobs" / scheduler, MADE / "classify" / scheduler]


def place_of(name):
    """Where the job file of that name, "jobs/...", is."""
    below = pathlib.PurePath(name).relative_to("jobs")
    return (MADE if below.parts[0] == "classify" else ROOT / "jobs") / below


def table():
    return tomllib.loads((ROOT / "jobs/job.toml").read_text())


@dataclasses.dataclass
class Stage:
    """One command of a program, and what its file says around it."""
    file: str
    where: str
    words: list  # the program and its arguments, variables as they stand in the file
    launcher: list = dataclasses.field(default_factory=list)  # of retina-launch, up to the --
    counts: dict = dataclasses.field(default_factory=dict)  # every number of ranks that is said
    nodes: int = 1
    image: str = ""
    shm_gib: float = 0.0
    mounts: dict = dataclasses.field(default_factory=dict)  # prefix of paths -> may be written
    paths: list = dataclasses.field(default_factory=list)  # used by the file beside the words
    places: dict = dataclasses.field(default_factory=dict)  # prefix of paths -> where that is

    def __str__(self):
        return f"{self.file}: {self.where}: {self.program}"

    @property
    def program(self):
        return pathlib.PurePath(self.words[0]).name

    def option(self, name):
        for word, value in zip(self.words, self.words[1:] + [""]):
            if word == name:
                return value
            if word.startswith(name + "="):
                return word.split("=", 1)[1]
        return None


def started(words, **around):
    """The Stage of a command, or None for a command of something else."""
    launcher = []
    if words and pathlib.PurePath(words[0]).name == "retina-launch":
        if "--" not in words:
            return None
        end = words.index("--")
        launcher, words = words[:end], words[end + 1:]
    if not words or pathlib.PurePath(words[0]).name not in PROGRAMS:
        return None
    stage = Stage(words=words, launcher=launcher, **around)
    # Copied: a file's other commands have other numbers.
    stage.counts = dict(stage.counts)
    given = Stage(file="", where="", words=launcher or ["-"])
    for name in ("--ranks", "--expect-ranks"):
        if (said := given.option(name)) is not None:
            stage.counts[f"retina-launch {name}"] = int(said)
    if (said := stage.option("--expect-ranks")) is not None:
        stage.counts["--expect-ranks"] = int(said)
    if stage.program in ALONE:
        stage.counts["processes of " + stage.program] = 1
    return stage


def shell_commands(line):
    """A shell line's simple commands, each a list of words; the target of a > is a word too."""
    lexer = shlex.shlex(line.replace("\n", " "), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands = [[]]
    for word in lexer:
        if set(word) <= set(";&|"):
            commands.append([])
        elif not set(word) <= set("<>"):
            commands[-1].append(word)
    return [words for words in commands if words]


def gib(text):
    """A size as Docker, Kubernetes and Batch AI write it; 0 for none."""
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(i?b?)", str(text or "0").lower())
    if not match:
        raise ValueError(f"{text}: not a size")
    return int(match[1]) * {"": 1 / 2**30, "k": 1 / 2**20, "m": 1 / 2**10, "g": 1}[match[2]]


# --- Azure Batch AI: JSON -----------------------------------------------------------------------
def batchai(name, content, folder):
    properties = json.loads(content)["properties"]
    if "nodeCount" not in properties:  # the cluster's file
        return []
    cluster = json.loads((folder / "cluster.json").read_text())["properties"]
    mounts = {f"$AZ_BATCHAI_{kind}": True for kind in ("JOB_TEMP", "MPI_HOST_FILE")}
    for root, place in (("$AZ_BATCHAI_MOUNT_ROOT", cluster.get("nodeSetup", {})),
                        ("$AZ_BATCHAI_JOB_MOUNT_ROOT", properties)):
        for volumes in place.get("mountVolumes", {}).values():
            mounts |= {f"{root}/{volume['relativeMountPath']}": True for volume in volumes}
    paths = [properties["stdOutErrPathPrefix"]]
    for given in properties.get("inputDirectories", []):
        mounts[f"$AZ_BATCHAI_INPUT_{given['id']}"] = False
        paths.append(given["path"])
    for given in properties.get("outputDirectories", []):
        mounts[f"$AZ_BATCHAI_OUTPUT_{given['id']}"] = True
        paths.append(given["pathPrefix"])
    container = properties.get("containerSettings", {})
    nodes = properties["nodeCount"]
    around = {"file": name, "nodes": nodes, "mounts": mounts, "paths": paths,
              "image": container.get("imageSourceRegistry", {}).get("image", ""),
              "shm_gib": gib(container.get("shmSize"))}
    ranks = nodes * table()["size"]["gpus_per_node"]
    stages = []
    for kind, counts in (
            ("customMpiSettings", lambda given: {
                "nodeCount x GPUs": ranks, "processCount": given.get("processCount", nodes)}),
            ("customToolkitSettings", lambda given: {})):
        given = properties.get(kind)
        if not given:
            continue
        commands = shell_commands(given["commandLine"])
        around["paths"] = paths + [word for words in commands for word in words]
        for words in commands:
            if stage := started(words, where=kind, counts=counts(given), **around):
                if stage.launcher and stage.program in ("retina-train", "retina-eval"):
                    stage.counts["nodeCount x GPUs"] = ranks
                stages.append(stage)
    return stages


# --- Azure ML: YAML -----------------------------------------------------------------------------
def azureml(name, content, _):
    job = wheel("yaml").safe_load(content)
    if job.get("type") == "pipeline":
        return [stage for step, given in job["jobs"].items()
                for stage in azureml_command(name, f"jobs.{step}", given, job)]
    return azureml_command(name, "command", job, {}) if "command" in job else []


def azureml_command(name, where, job, pipeline):
    # /tmp is the node's own disk.
    mounts, places = {"/tmp": True}, {}
    for given, value in job.get("inputs", {}).items():
        prefix = "${{inputs.%s}}" % given
        if isinstance(value, str):  # the output of another step
            parent = re.fullmatch(r"\$\{\{parent\.jobs\.(\w+)\.outputs\.(\w+)\}\}", value)
            step = pipeline["jobs"].get(parent[1], {}) if parent else {}
            value = step.get("outputs", {}).get(parent[2]) if parent else None
            if value is None:
                continue
        mounts[prefix], places[prefix] = False, value["path"].rstrip("/")
    for given, value in job.get("outputs", {}).items():
        prefix = "${{outputs.%s}}" % given
        mounts[prefix], places[prefix] = value.get("mode") == "rw_mount", value["path"].rstrip("/")
    nodes = job.get("resources", {}).get("instance_count", 1)
    each = job.get("distribution", {}).get("process_count_per_instance", 1)
    counts = {"instance_count x process_count_per_instance": nodes * each}
    if job.get("distribution"):
        counts["instance_count x GPUs"] = nodes * table()["size"]["gpus_per_node"]
    commands = shell_commands(job["command"])
    return [stage for words in commands if (stage := started(
        words, file=name, where=where, nodes=nodes, counts=counts, mounts=mounts,
        places=places, paths=[word for other in commands for word in other],
        image=job.get("environment", {}).get("image", ""),
        shm_gib=gib(job.get("resources", {}).get("shm_size"))))]


# --- Kubernetes: YAML ---------------------------------------------------------------------------
def kubernetes(name, content, folder):
    claims = {claim["metadata"]["name"]
              for claim in wheel("yaml").safe_load_all((folder / "pvc.yaml").read_text())}
    stages = []
    for job in wheel("yaml").safe_load_all(content):
        if job["kind"] == "MPIJob":
            replicas = job["spec"]["mpiReplicaSpecs"]
            launcher = replicas["Launcher"]["template"]["spec"]
            worker = replicas["Worker"]["template"]["spec"]
            nodes = replicas["Worker"]["replicas"]
            counts = {"slotsPerWorker x replicas": job["spec"]["slotsPerWorker"] * nodes}
            # The ranks live in the workers; the operator puts the host file into the launcher.
            for container in launcher["containers"]:
                stages += pod_command(name, container, worker, worker["containers"][0], claims,
                                      nodes, counts)
        elif job["kind"] == "Job":
            pod = job["spec"]["template"]["spec"]
            # Of an indexed Job the last pod.
            index = job["spec"].get("completions", 1) - 1
            for container in pod.get("initContainers", []) + pod["containers"]:
                container |= {"command": indexed_words(container.get("command", []), index)}
                stages += pod_command(name, container, pod, container, claims, 1, {})
    return stages


def indexed_words(words, index):
    """The words that an indexed Job's pod starts, which a shell completes."""
    if words[:2] != ["sh", "-c"]:
        return words
    with tempfile.TemporaryDirectory() as room:
        stub = pathlib.Path(room, "retina-launch")
        stub.write_text("#!/bin/sh\nprintf '%s\\037' retina-launch \"$@\"\n")
        stub.chmod(0o755)
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env={
            "PATH": f"{room}:/usr/bin:/bin", "JOB_COMPLETION_INDEX": str(index)})
        return done.stdout.split("\x1f")[:-1]


def pod_command(name, container, pod, where_it_runs, claims, nodes, counts):
    mounts, shm = {"/etc/mpi/hostfile": False}, 0.0
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    for mount in where_it_runs.get("volumeMounts", []):
        volume = volumes.get(mount["name"], {})
        claim = volume.get("persistentVolumeClaim")
        if claim and claim["claimName"] in claims or "emptyDir" in volume:
            mounts[mount["mountPath"]] = not mount.get("readOnly", False)
        memory = volume.get("emptyDir", {})
        if mount["mountPath"] == "/dev/shm" and memory.get("medium") == "Memory":
            shm = gib(memory.get("sizeLimit"))
    gpus = where_it_runs.get("resources", {}).get("limits", {}).get("nvidia.com/gpu")
    counts = counts | ({"nvidia.com/gpu x pods": gpus * nodes} if gpus else {})
    # One image everywhere: in the launcher's place a worker of another image would be one too.
    images = {container.get("image"), where_it_runs.get("image")}
    stage = started(container.get("command", []) + container.get("args", []), file=name,
                    where=container["name"], nodes=nodes, counts=counts, mounts=mounts,
                    image=" ".join(sorted(map(str, images))), shm_gib=shm)
    return [stage] if stage else []


# --- Compose: YAML ------------------------------------------------------------------------------
def compose_text(text):
    """Variables as Compose fills them in when only those are set that have no default."""
    return re.sub(r"\$\{(\w+)(?::?([-?])([^}]*))?\}",
                  lambda match: match[3] if match[2] == "-" else f"/{match[1]}", str(text))


def compose(name, content, _):
    stages = []
    for service, given in wheel("yaml").safe_load(content)["services"].items():
        mounts = {}
        for volume in map(compose_text, given.get("volumes", [])):
            parts = volume.split(":")
            mounts[parts[1]] = parts[2:] != ["ro"]
        words = given.get("command", [])
        words = shlex.split(words) if isinstance(words, str) else words
        reservations = given.get("deploy", {}).get("resources", {}).get("reservations", {})
        devices = reservations.get("devices")
        counts = {"GPUs": devices[0]["count"]} if devices else {}
        if stage := started(words, file=name, where=service, counts=counts, mounts=mounts,
                            image=compose_text(given["image"]), shm_gib=gib(given.get("shm_size"))):
            stages.append(stage)
    return stages


# --- Slurm: bash, run with a stub of srun -------------------------------------------------------
# `df` is asked for the size of /dev/shm.
SRUN = r"""#!/bin/sh
{ printf '%s\037' "$@"; printf '\036'; } >>"$STUB_LOG"
case " $* " in *" df "*) printf ' 1G-blocks\n %s\n' "$STUB_SHM" ;; esac
"""


def sbatch_options(content):
    options = {}
    for line in content.splitlines():
        if match := re.match(r"#SBATCH --([a-z-]+)(?:[= ](.*))?$", line):
            options[match[1]] = match[2] or ""
    return options


def run_sbatch(content, shm_gib, **more):
    """(exit code, every srun's words) of a batch script on nodes with so much /dev/shm; `more` are
    variables of its environment."""
    options = sbatch_options(content)
    with tempfile.TemporaryDirectory() as room:
        stub = pathlib.Path(room, "srun")
        stub.write_text(SRUN)
        stub.chmod(0o755)
        log = pathlib.Path(room, "log")
        log.touch()
        job = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": options.get("job-name", ""),
               "SLURM_JOB_NUM_NODES": options.get("nodes", "1"),
               "SLURM_CPUS_PER_TASK": options.get("cpus-per-task", "1"),
               "SLURM_NTASKS": options.get("ntasks", "1"),
               "DATA": "/data", "SHARE": "/share", "PATH": f"{room}:{os.environ['PATH']}",
               "STUB_LOG": str(log), "STUB_SHM": str(shm_gib), "HOME": room} | more
        done = subprocess.run(["bash", "-c", content], env=job, capture_output=True, text=True,
                              timeout=60, cwd=room)
        return done.returncode, [entry.split("\x1f")[:-1]
                                 for entry in log.read_text().split("\x1e")[:-1]]


def slurm(name, content, _):
    sbatch = sbatch_options(content)
    want = table()["size"]["shm_gib"]
    _, runs = run_sbatch(content, want)
    if "${MERGE:-}" in content:
        runs += run_sbatch(content, want, MERGE="1")[1]
    code, _ = run_sbatch(content, want - 1)
    nodes = int(sbatch.get("nodes", 1))
    counts = {"--ntasks": int(sbatch["ntasks"])}
    for option in ("ntasks-per-node", "gpus-per-node"):
        if option in sbatch:
            counts[f"--nodes x --{option}"] = nodes * int(sbatch[option])
    stages = []
    for run in runs:
        options, words = srun_words(run)
        mounts = {}
        for mount in filter(None, options.get("--container-mounts", "").split(",")):
            parts = mount.split(":")
            mounts[parts[1]] = parts[2:] != ["ro"]
        of_srun = {"srun --ntasks": int(options["--ntasks"])} if "--ntasks" in options else {}
        # pyxis writes REGISTRY#IMAGE:TAG.
        if stage := started(words, file=name, where="srun", nodes=nodes, counts=counts | of_srun,
                            image=options.get("--container-image", "").replace("#", "/", 1),
                            mounts=mounts, shm_gib=want if code == 69 else 0.0):
            stages.append(stage)
    return stages


def srun_words(run):
    """(srun's options by name, the words of what it starts)."""
    options = {}
    for place, word in enumerate(run):
        if not word.startswith("-"):
            return options, run[place:]
        option, _, value = word.partition("=")
        options[option] = value
    return options, []


# --- docker/run.sh: bash, asked for its commands ------------------------------------------------
RUN_RANKS = 4


def docker_run(name, content, _):
    stages = []
    with tempfile.TemporaryDirectory() as room:
        script = pathlib.Path(room, "run.sh")
        script.write_text(content)
        script.chmod(0o755)
        for stage in ("pack", "weights", "train", "eval", "convert"):
            ranks = ["--ranks", str(RUN_RANKS)] if stage in ("train", "eval") else []
            done = subprocess.run(
                [script, stage, "--data", "/data", "--share", "/share", *ranks, "--dry-run"],
                capture_output=True, text=True, timeout=60)
            for line in done.stdout.splitlines():
                stages += docker_line(name, stage, shlex.split(line))
    return stages


def docker_line(name, stage, line):
    """A `docker run` line: its options, then the image, then the command."""
    if "retina-launch" not in line:
        return []
    end = line.index("retina-launch")
    values = {}
    for option, value in zip(line[:end - 1], line[1:end]):
        values.setdefault(option, []).append(value)
    mounts = {}
    for mount in values.get("--volume", []):
        parts = mount.split(":")
        mounts[parts[1]] = parts[2:] != ["ro"]
    found = started(line[end:], file=name, where=stage, mounts=mounts, image=line[end - 1],
                    shm_gib=gib(values.get("--shm-size", [0])[0]))
    if found and stage in ("train", "eval"):
        found.counts["run.sh --ranks"] = RUN_RANKS
    return [found] if found else []


# --- All of them --------------------------------------------------------------------------------
def job_names():
    """Every file below jobs/, after render_jobs(), that could hold a command of a scheduler."""
    jobs = ROOT / "jobs"
    kept = [path.relative_to(ROOT) for path in sorted(jobs.rglob("*"))
            if path.is_file() and path.name not in NOT_JOB_FILES
            and path.suffix not in (".md", ".py", ".pyc")
            and not {jobs / "templates", jobs / "classify"} & set(path.parents)]
    return kept + [pathlib.Path("jobs") / path.relative_to(MADE)
                   for path in sorted((MADE / "classify").rglob("*")) if path.is_file()]


def reader_of(path):
    folder = pathlib.Path(path).parent.name
    suffix = pathlib.Path(path).suffix
    return {("batchai", ".json"): batchai, ("azureml", ".yml"): azureml,
            ("kubernetes", ".yaml"): kubernetes, ("slurm", ".sbatch"): slurm,
            ("docker", ".yaml"): compose, ("docker", ".sh"): docker_run}.get((folder, suffix))


def commands_named(content):
    """How many commands of the programs a file's text names; comments do not count."""
    text = re.sub(r"^\s*#.*$", "", content, flags=re.MULTILINE)
    # A name, then its first option: after a space, a line's end, or as the next item of a list.
    return len(re.findall(rf"(?:{'|'.join(PROGRAMS)})[\"']?[\\\\,\s]*(?:- )?[\"']?--[a-z]", text))


def stages_of(path, content=None):
    """The stages of a job file, given by its name, "jobs/..."; of `content` where given."""
    reader = reader_of(path)
    if not reader:
        return []
    content = place_of(path).read_text() if content is None else content
    return reader(str(path), content, place_of(path).parent)

