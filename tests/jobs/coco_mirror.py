"""A COCO mirror on loopback with tiny archives, for tests of jobs/fetch_coco.sh.

    with CocoMirror(folder) as mirror:
        subprocess.run([...], env=os.environ | mirror.environment())
"""
import http.server
import pathlib
import threading
import zipfile

TRAIN_COUNT, VAL_COUNT = 12, 5


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


class CocoMirror:
    """Archives of a few files and their table, served until the end of the `with`."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.gets = []  # (archive, first byte) of every download
        self.break_after = []  # bytes that the next answers give before the line breaks
        self.hangs = False  # the line stays open after an answer until `released`
        self.released = threading.Event()
        self.knows_ranges = True
        self.tells_sizes = True
        rows = [
            self.archive("zips/train2017.zip", "train2017/*.jpg",
                         {f"train2017/{i:012}.jpg": bytes([i]) * 5000 for i in range(TRAIN_COUNT)}),
            self.archive("zips/val2017.zip", "val2017/*.jpg",
                         {f"val2017/{i:012}.jpg": bytes([i]) * 300 for i in range(VAL_COUNT)}),
            self.archive("annotations/annotations_trainval2017.zip", "annotations/instances_*.json",
                         {f"annotations/{kind}_{split}2017.json": b"{}"
                          for kind in ("captions", "instances") for split in ("train", "val")}),
        ]
        self.table = self.root / "table.txt"
        self.write_table(rows)

    def archive(self, name, pattern, files):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.mkdir(pattern.split("/")[0])
            for file, content in files.items():
                archive.writestr(file, content)
        kept = [content for file, content in files.items() if pathlib.PurePath(file).match(pattern)]
        return [name, path.stat().st_size, pattern, len(kept), sum(map(len, kept))]

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

    def environment(self):
        port = self.server.server_address[1]
        return {"COCO_URL": f"http://127.0.0.1:{port}", "COCO_TABLE": str(self.table),
                "no_proxy": "127.0.0.1"}
