"""Two machines of a cluster on this one: Nodes() gives each an own network interface, host name,
process table and root file system, with sshd on 2222, and a switch between them.

The root file system is a private layer over this machine's, with docker/'s files where the image
has them, or over an unpacked image in $RETINA_IMAGE_ROOT. Everything vanishes with the processes.
"""
import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RETINA_BUILD", SOURCE / "build")).resolve()
IMAGE_ROOT = os.environ.get("RETINA_IMAGE_ROOT", "")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORT = 2222
# The image's ENV that matters here; what ssh starts gets none of it.
PLATFORM = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"] if IMAGE_ROOT else []
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

# Where the image has them: (path, content's source, mode).
IMAGE_FILES = [
    ("/usr/local/bin/retina-launch", SOURCE / "docker/retina-launch", 0o755),
    ("/etc/retina/ssh_config", SOURCE / "docker/ssh_config", 0o644),
    ("/etc/retina/sshd_config", SOURCE / "docker/sshd_config", 0o644),
    ("/etc/openmpi/openmpi-mca-params.conf", SOURCE / "docker/openmpi-mca-params.conf", 0o644),
    ("/etc/nccl.conf", SOURCE / "docker/nccl.conf", 0o644),
]

# A machine's root is $lower below a layer in memory. All ends with the first process, and that with
# this one.
BOOT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$room"
mkdir "$room/upper" "$room/work" "$room/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$room/upper,workdir=$room/work" "$room/root"
root=$room/root
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mkdir -p "$root$shared"
mount --bind "$shared" "$root$shared"
hostname "$name"
. "$script"
# It stays root: a process that changes its user would outlive a test that is killed.
exec chroot "$root" sh -c 'cd /; setpriv --reuid "$uid" --regid "$uid" --clear-groups \
  env -i PATH="$PATH" HOME="$home" /usr/sbin/sshd -De -f /etc/retina/sshd_config & wait'
"""


def why_not():
    """What this machine lacks for two nodes, or nothing."""
    tools = ["ip", "unshare", "nsenter", "setpriv", "ssh-keygen", "bridge"]
    if not IMAGE_ROOT:
        tools += ["mpirun", "dumb-init", "/usr/sbin/sshd"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        return "not installed: " + ", ".join(missing)
    probe = "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/r && " \
            "mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r && " \
            "ip link add one type veth peer name two && ip link add three type bridge"
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "sh", "-c",
                            probe], capture_output=True, text=True)
    if tried.returncode:
        return "no namespaces, overlays or bridges here: " + tried.stderr.strip()
    return ""


def die_with_parent():
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def children_of(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def checked(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def wait_until(condition, seconds, what):
    """The seconds that it took; an AssertionError past the limit."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return time.monotonic() - began


def kill(process):
    if process.poll() is None:
        process.kill()
    process.wait()


class Namespace:
    """A network of its own, held by a process."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"],
                                       preexec_fn=die_with_parent)
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, 10, "unshare")

    def enter(self):
        return ["nsenter", f"--target={self.holder.pid}", "--net"]

    def ip(self, *words):
        checked([*self.enter(), "ip", *words])


class Node:
    """A machine: network that stays, processes and files that `kill_all` takes away."""

    def __init__(self, number, switch, uid, shared, room):
        self.name, self.address, self.port = f"node-{number}", f"10.77.0.{number}", f"port{number}"
        self.switch, self.uid, self.shared, self.room = switch, uid, shared, room
        self.home = "/home/retina" if uid else "/root"
        room.mkdir()
        self.network = Namespace()
        switch.ip("link", "add", self.port, "type", "veth", "peer", "name", "eth0",
                  "netns", self.network.holder.pid)
        switch.ip("link", "set", self.port, "up", "master", "switch")
        self.network.ip("link", "set", "lo", "up")
        self.network.ip("link", "set", "eth0", "up")
        self.network.ip("address", "add", f"{self.address}/24", "dev", "eth0")
        self.machine = None

    def set_up_script(self):
        """Shell lines that install in "$root" what the image and its platform would."""
        lines = []
        if not IMAGE_ROOT:
            for path, source, mode in IMAGE_FILES:
                lines.append(f'install -D -m {mode:o} {shlex.quote(str(source))} "$root{path}"')
            lines.append(f'ln -sf {shlex.quote(str(BUILD))}/bin/retina-* "$root/usr/local/bin/"')
            lines.append('echo "retina:x:10001:10001::/home/retina:/bin/bash" >>"$root/etc/passwd"')
            lines.append('echo "retina:x:10001:" >>"$root/etc/group"')
            lines.append('echo "retina:*:::::::" >>"$root/etc/shadow"')
            lines.append('install -d -o 10001 -g 10001 "$root/home/retina"')
            lines.append('install -d "$root/run/sshd"')
        # As a scheduler mounts a job's key: root's files, readable by all.
        lines.append('install -d "$root$home/.ssh"')
        mode = "600" if self.uid == 0 else "644"
        lines.append(f'install -m {mode} "$keys/id_rsa" "$keys/id_rsa.pub" "$root$home/.ssh/"')
        lines.append('install -m 644 "$keys/id_rsa.pub" "$root$home/.ssh/authorized_keys"')
        lines += [f'echo "10.77.0.{i} node-{i}" >>"$root/etc/hosts"' for i in (1, 2)]
        return "\n".join(lines) + "\n"

    def start(self):
        script = self.room.parent / f"{self.name}.sh"
        script.write_text(self.set_up_script())
        log = open(self.room.parent / f"{self.name}.log", "ab")
        values = {"PATH": PATH, "lower": IMAGE_ROOT or "/", "room": self.room, "uid": self.uid,
                  "shared": self.shared, "name": self.name, "script": script, "home": self.home,
                  "keys": self.room.parent / "keys"}
        self.machine = subprocess.Popen(
            [*self.network.enter(), "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork",
             "--kill-child", "sh", "-c", BOOT],
            env={key: str(value) for key, value in values.items()}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, preexec_fn=die_with_parent)
        log.close()
        knock = f"exec 3<>/dev/tcp/{self.address}/{PORT}"
        wait_until(lambda: self.machine.poll() is not None or subprocess.run(
            [*self.network.enter(), "bash", "-c", knock], capture_output=True).returncode == 0,
                   20, f"{self.name}: sshd")
        if self.machine.poll() is not None:
            raise RuntimeError(f"{self.name}: {pathlib.Path(log.name).read_text()}")

    def first_process(self):
        return children_of(self.machine.pid)[0]

    def run(self, words, log):
        """Starts a command here, as the job's user, its output in the file `log`."""
        enter = ["nsenter", f"--target={self.first_process()}", "--net", "--mount", "--uts",
                 "--ipc", "--pid", "--root", "setpriv", f"--reuid={self.uid}",
                 f"--regid={self.uid}", "--clear-groups", "env", "-i", "--chdir=/", f"PATH={PATH}",
                 f"HOME={self.home}", *PLATFORM]
        with open(log, "ab") as output:
            return subprocess.Popen([*enter, *map(str, words)], stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=output, preexec_fn=die_with_parent)

    def processes(self):
        """Command lines of what runs here besides sshd."""
        space = os.readlink(f"/proc/{self.first_process()}/ns/pid")
        lines = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == space:
                    lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                pass  # ended meanwhile
        return [line for line in lines if line and "sshd" not in line]

    def kill_all(self):
        """Every process dies at once; the kernel still closes their connections."""
        os.kill(self.first_process(), signal.SIGKILL)
        self.machine.wait()

    def cut(self):
        """Nothing that is sent arrives any more, and nobody is told."""
        self.switch.ip("link", "set", self.port, "nomaster")

    def join(self):
        self.switch.ip("link", "set", self.port, "master", "switch")


class Nodes:
    """with Nodes(room, shared, uid) as (first, second): ..."""

    def __init__(self, room, shared, uid):
        self.room, self.shared, self.uid = pathlib.Path(room), pathlib.Path(shared), uid
        self.switch, self.nodes = None, []

    def __enter__(self):
        try:
            (self.room / "keys").mkdir(parents=True)
            checked(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f",
                     self.room / "keys/id_rsa"])
            self.switch = Namespace()
            self.switch.ip("link", "add", "switch", "type", "bridge")
            self.switch.ip("link", "set", "switch", "up")
            for number in (1, 2):
                self.nodes.append(Node(number, self.switch, self.uid, self.shared,
                                       self.room / f"node-{number}"))
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self.nodes

    def __exit__(self, *_):
        for node in self.nodes:
            if node.machine and node.machine.poll() is None:
                node.kill_all()
            kill(node.network.holder)
        if self.switch:
            kill(self.switch.holder)
