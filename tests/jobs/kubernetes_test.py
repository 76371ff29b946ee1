"""The Kubernetes files against the published schemas, the operator's CRD and its own rules."""
import copy
import functools
import re
import sys
import unittest

from job_files import ROOT, SCHEMAS, wheel

FOLDER = ROOT / "jobs/kubernetes"
CRD = SCHEMAS / "mpi-operator/kubeflow.org_mpijobs.yaml"
# Of Kubernetes: the first in which a Job's podFailurePolicy is stable, and the wheel's newest.
VERSIONS = ("1.31", "1.37")


def documents(name):
    return list(wheel("yaml").safe_load_all((FOLDER / name).read_text()))


def refused(document, version=VERSIONS[-1]):
    """What an API server would refuse, unknown fields too; "" for nothing."""
    validate = wheel("kubernetes_validate")
    try:
        validate.validate(document, version, strict=True)
        return ""
    except validate.ValidationError as error:
        return f"{version}: {'.'.join(map(str, error.path))}: {error.message}"


def pods(job):
    """The pods of an MPIJob, as documents of their own."""
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": kind.lower()},
             "spec": {"restartPolicy": "Never", **replica["template"]["spec"]}}
            for kind, replica in job["spec"]["mpiReplicaSpecs"].items()]


def strict(schema):
    """The schema, refusing every field that it does not name, as the API server does."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: {name: strict(part) for name, part in value.items()} if key == "properties"
            else strict(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema and \
            not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


@functools.cache
def crd():
    if not CRD.is_file():
        raise unittest.SkipTest(f"{CRD} is missing: RETINA_TEST_SCHEMAS can say where it is")
    yaml = wheel("yaml")
    content = yaml.load(CRD.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    [version] = [given for given in content["spec"]["versions"] if given["name"] == "v2beta1"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    # The API server knows the fields that every object has.
    schema["properties"]["metadata"] = {"type": "object", "additionalProperties": False,
                                        "properties": {"name": {"type": "string"}}}
    return wheel("jsonschema").Draft202012Validator(schema)


def crd_errors(job):
    return [f"{error.json_path}: {error.message}" for error in crd().iter_errors(job)]


def controller_errors(job):
    """What the operator itself refuses once the API server has taken the job."""
    spec, errors = job["spec"], []

    def want(holds, text):
        if not holds:
            errors.append(text)

    want(job["apiVersion"] == "kubeflow.org/v2beta1", "apiVersion: want kubeflow.org/v2beta1")
    want(spec.get("slotsPerWorker", 1) >= 1, "slotsPerWorker: want 1 or more")
    want(spec.get("sshAuthMountPath", "/root/.ssh").startswith("/"),
         "sshAuthMountPath: want a path")
    want(spec.get("mpiImplementation", "OpenMPI") in ("OpenMPI", "Intel", "MPICH"),
         "mpiImplementation: unknown")
    want(spec.get("launcherCreationPolicy", "AtStartup") in ("AtStartup", "WaitForWorkersReady"),
         "launcherCreationPolicy: unknown")
    policy = spec.get("runPolicy", {})
    want(policy.get("cleanPodPolicy", "None") in ("None", "Running", "All"),
         "cleanPodPolicy: unknown")
    for number in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        want(policy.get(number, 0) >= 0, f"{number}: negative")
    replicas = spec.get("mpiReplicaSpecs", {})
    want(set(replicas) <= {"Launcher", "Worker"}, "mpiReplicaSpecs: want Launcher and Worker")
    want("Launcher" in replicas, "Launcher: missing")
    want(replicas.get("Launcher", {}).get("replicas", 1) == 1, "Launcher: want 1 replica")
    workers = replicas.get("Worker", {}).get("replicas", 0)
    want(workers >= 1, "Worker: want 1 replica or more")
    for kind, replica in replicas.items():
        want(replica.get("restartPolicy", "Never") in ("Never", "OnFailure"),
             f"{kind}: restartPolicy: want Never or OnFailure")
        want(replica.get("template", {}).get("spec", {}).get("containers"), f"{kind}: no container")
    last = f"{job['metadata']['name']}-worker-{workers - 1}"
    want(len(last) <= 63 and re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", last),
         f"{last}: no name for a host")
    return errors


def changed(document, path, value):
    """A copy with another value at the path; of a path's last name alone, without that field."""
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


SPEC = ("spec", "mpiReplicaSpecs")
WORKER = (*SPEC, "Worker", "template", "spec")
# Deep in the pods, where a typo would otherwise be silent.
POD_TYPOS = (
    ((*WORKER, "terminationGracePeriodSecond"), 300),
    ((*WORKER, "securityContext", "runAsUsr"), 10001),
    ((*WORKER, "containers", 0, "volumeMount"), []),
    ((*WORKER, "containers", 0, "volumeMounts", 0, "mountpath"), "/mnt/coco"),
    ((*WORKER, "containers", 0, "resources", "limit"), {"nvidia.com/gpu": 4}),
    ((*WORKER, "containers", 0, "ports", 0, "containerport"), 2222),
    ((*WORKER, "volumes", 0, "persistentVolumeClaim", "claim"), "coco"),
    ((*WORKER, "containers", 0, "command"), "/usr/sbin/sshd"),
    ((*SPEC, "Launcher", "template", "spec", "containers", 0, "argv"), []),
)


class KubernetesFiles(unittest.TestCase):
    def setUp(self):
        wheel("kubernetes_validate")

    def mpijob(self):
        [job] = documents("mpijob.yaml")
        return job

    def test_the_api_server_would_take_every_file(self):
        kinds = []
        for path in sorted(FOLDER.glob("*.yaml")):
            for document in documents(path.name):
                kinds.append(document["kind"])
                for part in pods(document) if kinds[-1] == "MPIJob" else [document]:
                    for version in VERSIONS:
                        self.assertEqual(refused(part, version), "", f"{path.name}: {part['kind']}")
        self.assertEqual(sorted(set(kinds)), ["Job", "MPIJob", "PersistentVolumeClaim"])

    def test_a_typo_deep_in_a_pod_is_found(self):
        job = self.mpijob()
        for path, value in POD_TYPOS:
            with self.subTest(path=path):
                self.assertNotEqual("".join(map(refused, pods(changed(job, path, value)))), "")

    def test_a_typo_in_a_job_or_a_volume_is_found(self):
        [job] = documents("eval-job.yaml")
        claim = documents("pvc.yaml")[0]
        pod = ("spec", "template", "spec")
        for document, path, value in (
                (job, ("spec", "backofLimit"), 6),
                (job, ("spec", "podFailurePolicy", "rules", 0, "onExitCode"), {}),
                (job, (*pod, "containers", 0, "image_"), "x"),
                (job, (*pod, "volumes", 0, "emptyDirr"), {}),
                (job, (*pod, "restartPolicy"), ["Never"]),
                (job, (*pod, "containers"), None),
                (claim, ("spec", "accessMode"), ["ReadWriteMany"]),
                (claim, ("spec", "resources", "request"), {"storage": "1Gi"})):
            with self.subTest(path=path):
                self.assertNotEqual(refused(changed(document, path, value)), "")

    def test_the_mpijob_fits_the_operators_definition(self):
        self.assertEqual(crd_errors(self.mpijob()), [])

    def test_a_typo_that_the_definition_does_not_know_is_found(self):
        job = self.mpijob()
        for path, value in (*POD_TYPOS,
                            (("spec", "slotPerWorker"), 4),
                            (("spec", "mpiImplementation"), "OpenMpi"),
                            (("spec", "runPolicy", "cleanPodPolice"), "Running"),
                            ((*SPEC, "Worker", "replica"), 2),
                            (SPEC, None)):
            with self.subTest(path=path):
                self.assertNotEqual(crd_errors(changed(job, path, value)), [])

    def test_the_operator_would_take_the_mpijob(self):
        self.assertEqual(controller_errors(self.mpijob()), [])

    def test_what_the_operator_refuses_is_found(self):
        job = self.mpijob()
        for path, value in ((("apiVersion",), "kubeflow.org/v1"),
                            (("spec", "slotsPerWorker"), 0),
                            (("spec", "mpiImplementation"), "MVAPICH"),
                            (("spec", "launcherCreationPolicy"), "Later"),
                            (("spec", "sshAuthMountPath"), ""),
                            (("spec", "runPolicy", "cleanPodPolicy"), "Failed"),
                            (("spec", "runPolicy", "backoffLimit"), -1),
                            ((*SPEC, "Launcher", "replicas"), 2),
                            ((*SPEC, "Launcher"), None),
                            ((*SPEC, "Worker", "replicas"), 0),
                            ((*SPEC, "Worker", "restartPolicy"), "Always"),
                            ((*SPEC, "Server"), {}),
                            ((*WORKER, "containers"), []),
                            (("metadata", "name"), "coco_retinanet"),
                            (("metadata", "name"), "retina-" + "n" * 50)):
            with self.subTest(path=path, value=value):
                self.assertNotEqual(controller_errors(changed(job, path, value)), [])

    def test_the_pods_are_the_user_of_the_image_and_start_its_sshd(self):
        dockerfile = (ROOT / "docker/Dockerfile").read_text()
        [user] = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
        job = self.mpijob()
        jobs = [document for path in FOLDER.glob("*-job.yaml") for document in documents(path.name)]
        specs = [pod["spec"] for pod in pods(job)] + [
            document["spec"]["template"]["spec"] for document in jobs]
        self.assertGreater(len(specs), 4)
        for spec in specs:
            context = spec["securityContext"]
            self.assertEqual((context["runAsUser"], context["runAsGroup"]), tuple(map(int, user)))
            self.assertTrue(context["runAsNonRoot"])
        sshd = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        config = sshd["command"][sshd["command"].index("-f") + 1]
        self.assertIn(f"COPY docker/sshd_config {config}\n", dockerfile)
        # Its client's settings lie where the launcher looks, and where no other ssh does.
        launcher = (ROOT / "docker/retina-launch").read_text()
        [settings] = re.findall(r"ssh_config=(/\S+)", launcher)
        self.assertEqual(re.findall(r"^COPY docker/ssh_config (\S+)$", dockerfile, re.MULTILINE),
                         [settings])
        self.assertFalse(settings.startswith("/etc/ssh/"))
        [home] = re.findall(r"^WORKDIR (/home/\S+)$", dockerfile, re.MULTILINE)
        self.assertEqual(job["spec"]["sshAuthMountPath"], f"{home}/.ssh")
        ports = re.findall(r"^Port (\d+)$", (ROOT / "docker/sshd_config").read_text(), re.MULTILINE)
        self.assertEqual([str(port["containerPort"]) for port in sshd["ports"]], ports)


if __name__ == "__main__":
    sys.exit(unittest.main())
