"""Mirrors on loopback with tiny files: of COCO for tests of jobs/fetch_coco.sh, of torchvision's
weights for tests of docker/retina-weights; and what the tests of both scripts share.

    with CocoMirror(folder) as mirror:
        subprocess.run([...], env=os.environ | mirror.environment())
"""
import hashlib
import http.server
import os
import pathlib
import signal
import subprocess
import threading
import time
import unittest
import zipfile

TRAIN_COUNT, VAL_COUNT = 12, 5


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below server.root, with `Range: bytes=N-`; can break off or lie about a size."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        mirror = self.server.mirror
        path = mirror.root / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        start = 0
        wanted = self.headers.get("Range", "") if mirror.knows_ranges else ""
        if wanted.startswith("bytes="):
            start = int(wanted.removeprefix("bytes=").split("-")[0])
        if start > 0 and start >= len(content):
            self.send_error(416)
            return
        if with_body:
            mirror.gets.append((path.name, start))
        self.send_response(206 if start else 200)
        if mirror.tells_sizes:
            self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if with_body:
            end = min(len(content), start + mirror.break_after.pop(0)) if mirror.break_after else None
            self.wfile.write(content[start:end])
            if mirror.hangs:
                mirror.released.wait()
        self.close_connection = True

    def log_message(self, *_):
        pass


class Mirror:
    """Files and their table, served until the end of the `with`."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.gets = []  # (file, first byte) of every download
        self.break_after = []  # bytes that the next answers give before the line breaks
        self.hangs = False  # the line stays open after an answer until `released`
        self.released = threading.Event()
        self.knows_ranges = True
        self.tells_sizes = True
        self.table = self.root / "table.txt"

    def write_table(self, rows):
        self.rows = rows
        self.table.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.mirror = self
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def variables(self, name):
        """The environment that leads a script here."""
        port = self.server.server_address[1]
        return {f"{name}_URL": f"http://127.0.0.1:{port}", f"{name}_TABLE": str(self.table),
                "no_proxy": "127.0.0.1"}


class CocoMirror(Mirror):
    """Archives of a few files."""

    def __init__(self, folder):
        super().__init__(folder)
        self.write_table([
            self.archive("zips/train2017.zip", "train2017/*.jpg",
                         {f"train2017/{i:012}.jpg": bytes([i]) * 5000 for i in range(TRAIN_COUNT)}),
            self.archive("zips/val2017.zip", "val2017/*.jpg",
                         {f"val2017/{i:012}.jpg": bytes([i]) * 300 for i in range(VAL_COUNT)}),
            self.archive("annotations/annotations_trainval2017.zip", "annotations/instances_*.json",
                         {f"annotations/{kind}_{split}2017.json": b"{}"
                          for kind in ("captions", "instances") for split in ("train", "val")}),
        ])

    def archive(self, name, pattern, files):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.mkdir(pattern.split("/")[0])
            for file, content in files.items():
                archive.writestr(file, content)
        kept = [content for file, content in files.items() if pathlib.PurePath(file).match(pattern)]
        return [name, path.stat().st_size, pattern, len(kept), sum(map(len, kept)), sha256_of(path)]

    def environment(self):
        return self.variables("COCO")


class WeightsMirror(Mirror):
    """Files in the place of torchvision's, with names that their own hashes make: first, second."""

    def __init__(self, folder):
        super().__init__(folder)
        self.write_table([self.row("first", b"v1" * 20000), self.row("second", b"v2" * 20000)])

    def row(self, name, content, file=None):
        """The table's line for weights called `name`, whose file is now served."""
        hash_ = hashlib.sha256(content).hexdigest()
        path = self.root / (file or f"resnet50-{hash_[:8]}.pth")
        path.write_bytes(content)
        return [name, path.name, len(content), hash_]

    def names(self):
        """The files without their suffix, in the table's order."""
        return [row[1].removesuffix(".pth") for row in self.rows]

    def environment(self):
        return self.variables("WEIGHTS")


class DownloadTest(unittest.TestCase):
    """Tests of a script that downloads: a subclass has `mirror` and `command()`."""

    def environment(self, **more):
        return os.environ | self.mirror.environment() | more

    def fetch(self, *words, **environment):
        return subprocess.run([*self.command(), *words], capture_output=True, text=True, timeout=60,
                              env=self.environment(**environment))

    def expect_refusal(self, code, *fragments, words=(), **environment):
        refused = self.fetch(*words, **environment)
        self.assertEqual(refused.returncode, code, refused.stderr)
        errors = [line for line in refused.stderr.splitlines() if "error:" in line]
        self.assertEqual(len(errors), 1, refused.stderr)
        for fragment in fragments:
            self.assertIn(fragment, errors[0])

    def kill_while_receiving(self, part, sent):
        """Kills the script once the first `sent` bytes began to arrive in `part`; how many are there."""
        self.mirror.break_after, self.mirror.hangs = [sent], True
        job = subprocess.Popen(self.command(), stderr=subprocess.DEVNULL, env=self.environment(),
                               start_new_session=True)
        while job.poll() is None and not (part.exists() and part.stat().st_size > 0):
            time.sleep(0.01)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        self.mirror.hangs = False
        self.mirror.released.set()
        self.mirror.gets.clear()
        return part.stat().st_size
