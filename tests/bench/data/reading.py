#!/usr/bin/env python3
"""How fast photographs come over HTTP: a set by URL beside litdata's StreamingDataset and webdataset.

    python3 tests/bench/data/reading.py --photographs DIR [--read 3500] [--rounds 5] [--rate 400mbit]

Packs the JPEGs of DIR, each under many ids, in shards, chunks and tars of 64 MB, and reads all of them once, with
nothing in the cache, from one server on this machine: each reader in one process with its defaults and without
decoding, in turn. --rate shapes the loopback device of a network namespace of its own (both directions share the
rate; as root, with ip and tc). `curl` brings the same bytes on one connection: what the link and the server give.
The peers are those that are installed for this Python; their imports are not counted, our program's start is.
Prints a line of JSON a case, medians of the rounds: megabytes are those of the JPEGs, `core_seconds` the reader's.

They do different things: ours writes what comes to the scratch folder, compares the hash of each shard and each
record, and reads in random order; litdata writes chunks to its cache; webdataset keeps and checks nothing.
"""

import argparse
import http.server
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from data import BIN, make_images

SHARD_BYTES = 64_000_000


def core_seconds():
    return sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def sample(number):
    path = sample.all[number]
    return {"id": number, "image": path.read_bytes()}


# --- The server: ranges, HEAD and ETags, as S3 and nginx have them --------------------------------------
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder = None

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.folder / self.path.partition("?")[0].lstrip("/")
        size = path.stat().st_size if path.is_file() else 0
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, end = (int(asked[1]), min(int(asked[2]) + 1, size)) if asked else (0, size)
        self.send_response(404 if not path.is_file() else 206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - begin))
        self.send_header("ETag", f'"{size:x}"')
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime if size else 0))
        self.end_headers()
        self.wfile.flush()
        if self.command == "HEAD" or size == 0:
            return
        with path.open("rb") as file:
            while begin < end:
                begin += os.sendfile(self.connection.fileno(), file.fileno(), begin, end - begin)


def serve(folder):
    Handler.folder = folder
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


# --- Readers: (images, bytes of them) ---------------------------------------------------------------------
def litdata(root, cache):
    from litdata import StreamingDataset
    from litdata.streaming import downloader
    os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_REGION": "us-east-1"}
    if hasattr(downloader, "_OBSTORE_CLIENT_OPTIONS"):  # it asks for https otherwise
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    def read():
        images = StreamingDataset("s3://chunks", cache_dir=str(cache), storage_options={
            "endpoint_url": root, "region_name": "us-east-1", "aws_access_key_id": "id",
            "aws_secret_access_key": "key"})
        sizes = [len(image["image"]) for image in images]
        return len(sizes), sum(sizes)
    return read


def webdataset(root, _):
    import webdataset as wds

    def read():
        tars = [f"{root}/tars/{path.name}" for path in sorted(webdataset.folder.glob("*.tar"))]
        sizes = [len(image["jpg"]) for image in wds.WebDataset(tars, shardshuffle=False)]
        return len(sizes), sum(sizes)
    return read


PEERS = {"litdata": litdata, "webdataset": webdataset}


def run_peer(name, root, folder):
    """Prints the seconds, and the core's, of a peer that reads all; run in a process of its own."""
    webdataset.folder = folder / "tars"
    read = PEERS[name](root, folder / "cache")
    start, start_core = time.perf_counter(), core_seconds()
    count, image_bytes = read()
    print(time.perf_counter() - start, core_seconds() - start_core, count, image_bytes)


class Case:
    def __init__(self, folder, root, images):
        self.folder, self.root = folder, root
        self.want = (len(images), sum(image.stat().st_size for image in images))
        self.want_hash = self.ours(str(folder / "shards"))

    def ours(self, place):
        return subprocess.run([BIN / "remote_reader", "epochs", place, self.folder / "cache", "1", "0", "ahead"],
                              check=True, capture_output=True, text=True).stdout

    def timed(self, work):
        start, start_core = time.perf_counter(), core_seconds()
        work()
        return time.perf_counter() - start, core_seconds() - start_core

    def run_ours(self):
        def read():
            if self.ours(f"{self.root}/shards") != self.want_hash:
                sys.exit("a wrong byte")
        return self.timed(read)

    def run_curl(self):
        urls = [f"{self.root}/shards/{path.name}" for path in sorted((self.folder / "shards").glob("*.lmdb"))]
        return self.timed(lambda: subprocess.run(
            ["curl", "-s", *(word for url in urls for word in ("-o", "/dev/null", url))], check=True))

    def run_peer(self, name):
        done = subprocess.run([sys.executable, __file__, "--peer", name, "--root", self.root, "--photographs",
                               self.folder], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name}: left out: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
            return None
        *seconds, count, image_bytes = map(float, done.stdout.split()[-4:])
        if (count, image_bytes) != self.want:
            sys.exit(f"{name}: got {count:.0f} images of {image_bytes:.0f} bytes, want {self.want}")
        return tuple(seconds)


def pack(folder, photographs, count):
    """folder/shards, chunks (litdata's) and tars; the images that they are from."""
    made = folder / "made"
    make_images(photographs, count, made)
    subprocess.run([BIN / "coco-pack", "--annotations", made / "boxes.json", "--images", made / "images",
                    "--output", folder / "shards", "--check", "header", "--shard-size", str(SHARD_BYTES),
                    "--log-level", "error"], check=True, stdout=subprocess.DEVNULL)
    images = sorted((made / "images").iterdir())
    try:
        from litdata import optimize
        sample.all = images
        optimize(sample, list(range(len(images))), str(folder / "chunks"), chunk_bytes="64MB", num_workers=1,
                 start_method="fork", verbose=False)
    except ImportError as error:
        print(f"litdata: left out: {error}", file=sys.stderr)
    (folder / "tars").mkdir()
    tar, left = None, 0
    for image in images:
        if left <= 0:
            tar, left = tarfile.open(folder / f"tars/{image.stem}.tar", "w"), SHARD_BYTES
        tar.add(image, image.name)
        left -= image.stat().st_size
        if left <= 0 or image == images[-1]:
            tar.close()
    return images


def shape(rate):
    """The loopback device of this process's namespace."""
    for command in ("ip link set lo mtu 1500 up",
                    f"tc qdisc add dev lo root tbf rate {rate} burst 256kb latency 200ms"):
        subprocess.run(command.split(), check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, required=True, help="folder of JPEGs")
    parser.add_argument("--read", type=int, default=3500, help="photographs to read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", help="of the link, as tc has it: 400mbit")
    for hidden in ("--peer", "--root", "--serve"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--is-inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(Path(options.serve))
    if options.peer:
        return run_peer(options.peer, options.root, options.photographs)
    if options.rate and not options.is_inside:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv, "--is-inside"])
    if options.rate:
        shape(options.rate)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        images = pack(folder, options.photographs, options.read)
        os.sync()
        server = subprocess.Popen([sys.executable, __file__, "--photographs", folder, "--serve", folder],
                                  stdout=subprocess.PIPE, text=True)
        try:
            measure(Case(folder, f"http://127.0.0.1:{int(server.stdout.readline())}", images), options)
        finally:
            server.kill()


def measure(case, options):
    cases = {"retina-batch": case.run_ours, "curl": case.run_curl}
    cases |= {name: lambda name=name: case.run_peer(name) for name in PEERS}
    seconds = {}
    for _ in range(options.rounds):
        for name, run in list(cases.items()):
            shutil.rmtree(case.folder / "cache", ignore_errors=True)
            os.sync()
            took = run()
            if took is None:
                del cases[name]
            else:
                seconds.setdefault(name, []).append(took)
    count, image_bytes = case.want
    for name, rounds in seconds.items():
        wall, core = (statistics.median(values) for values in zip(*rounds))
        print(json.dumps({"bench": "reading", "case": name, "images_per_second": round(count / wall, 1),
                          "megabytes_per_second": round(image_bytes / wall / 1e6, 1),
                          "core_seconds": round(core, 2), "megabytes": round(image_bytes / 1e6, 1),
                          "rate": options.rate or "loopback", "rounds": options.rounds}))


if __name__ == "__main__":
    main()
