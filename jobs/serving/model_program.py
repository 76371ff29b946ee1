"""Runs one model for the server, which starts this program (model_process.py): requests arrive on the
socket at standard input, answers leave there in the same order. In a process of its own, a model that
crashes or hangs costs only its request, and the server's threads and the model's do not wait for each
other's interpreter lock.

usage: model_program.py '{"path": MODEL.onnx, "is_trusted": false, "limits": {...}}'

The first answer describes the model. Requests: {"tiling": null, "sizes": [...]} with elements as
parts; with [side, overlap] for tiling, images are cut into tiles. Answers: {"outputs": [...],
"seconds": [...]}, or {"status": HTTP, "problem": "one line"}; between them {"tiles_left": COUNT} for
each tile that is done.
"""
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import resource
import signal
import socket
import sys
import threading
import time

from answers import ANSWERS, NAMES
from frames import LENGTH, frame
from images import decoded, jpegs_of
from onnx_model import BadModel, OnnxModel, first_line, refusal
from request import BAD, FAILED, Limits, Refused
from tiles import cut, merge, tiles_of

GPU_BATCH_IMAGES = 8


class Room:
    """Limits the decoded images: to those of two batches, and to the pixels of two images of the largest
    size."""

    def __init__(self, limits):
        self._most_images = 2 * limits.max_batch_images
        self._most_pixels = 2 * limits.max_image_pixels
        self._images = self._pixels = 0
        self._change = threading.Condition()

    def take(self, pixels):
        with self._change:
            self._change.wait_for(lambda: self._images < self._most_images
                                  and self._pixels + pixels <= self._most_pixels)
            self._images, self._pixels = self._images + 1, self._pixels + pixels

    def give(self, pixels):
        with self._change:
            self._images, self._pixels = self._images - 1, self._pixels - pixels
            self._change.notify_all()


class Asked:
    """A request that waits for results."""

    def __init__(self):
        self.tiles, self.results, self.seconds = [], [], []
        self.missing = None  # not known yet
        self.refused = None

    def expect(self, tiles):
        """Prepares for results. `tiles`: those of each image, in order; [None] for one that stays whole."""
        self.tiles = tiles
        count = sum(map(len, tiles))
        self.results, self.seconds = [None] * count, [0.0] * count
        self.missing = count

    @property
    def has_tiles(self):
        return self.tiles[0][0] is not None

    def results_of_images(self, ids):
        if not self.has_tiles:
            return self.results
        results = iter(self.results)
        return [merge([next(results) for _ in rects], rects, ids) for rects in self.tiles]


@dataclasses.dataclass
class Waiting:
    """A decoded image, or a tile of one, that waits for the model: number `place` of `asked`."""
    asked: Asked
    place: int
    size: tuple  # height, width
    planes: bytes

    @property
    def pixels(self):
        return self.size[0] * self.size[1]


def check_takes_tiles(model):
    if model.kind != "detector":
        raise Refused(BAD, f"tile: the model is a {model.kind} (want a detector); hint: leave it out")


class Pipeline:
    """Decodes an image while the model works on the one before. `send` gets each answer's message."""

    def __init__(self, model, limits, send):
        self._model, self._limits, self._send = model, limits, send
        self._room, self._decoded = Room(limits), queue.SimpleQueue()
        self._asked, self._lock = collections.deque(), threading.Lock()
        self._next = None  # the first image of another size than the batch before it
        threading.Thread(target=self._compute, daemon=True).start()

    def add(self, elements, tiling=None):
        asked = Asked()
        self._asked.append(asked)
        try:
            jpegs = jpegs_of(elements, self._limits, self._model.size, tiling)
            if tiling:
                check_takes_tiles(self._model)
            asked.expect([tiles_of(jpeg.width, jpeg.height, tiling) if tiling else [None]
                          for jpeg in jpegs])
            place = 0
            for jpeg, rects in zip(jpegs, asked.tiles, strict=True):
                if asked.refused:
                    break
                self._decode(asked, place, jpeg, rects)
                place += len(rects)
        except Refused as refused:
            self._settle([asked], refused)
        except MemoryError:
            self._settle([asked], Refused(FAILED, "image: there is no memory to decode it"))

    def _decode(self, asked, place, jpeg, rects):
        """Queues an image for the model, or its tiles, the last of which is the whole image."""
        self._room.take(jpeg.pixels)
        try:
            planes = decoded(jpeg, self._limits.max_image_seconds / 2)
            for rect in rects[:-1]:
                if asked.refused:
                    break
                self._room.take(rect.width * rect.height)
                try:
                    part = cut(planes, jpeg.width, jpeg.height, rect)
                except BaseException:
                    self._room.give(rect.width * rect.height)
                    raise
                self._decoded.put(Waiting(asked, place, (rect.height, rect.width), part))
                part = None  # only the queue keeps it alive
                place += 1
        except BaseException:
            self._room.give(jpeg.pixels)
            raise
        self._decoded.put(Waiting(asked, place, (jpeg.height, jpeg.width), planes))

    def _compute(self):
        while True:
            batch, refused = self._batch(), None
            planes = [waiting.planes for waiting in batch]
            for waiting in batch:
                waiting.planes = None
            begin = time.monotonic()
            try:
                results = self._model.run(planes, *batch[0].size)
            except Exception as error:
                refused = Refused(FAILED, f"the model failed ({first_line(error)})")
            seconds = (time.monotonic() - begin) / len(batch)
            for waiting in batch:
                self._room.give(waiting.pixels)
            if not refused:
                for waiting, result in zip(batch, results, strict=True):
                    waiting.asked.results[waiting.place] = result
                    waiting.asked.seconds[waiting.place] = seconds
                    waiting.asked.missing -= 1
                    if waiting.asked.has_tiles and waiting.asked.missing:
                        with self._lock:
                            self._send({"tiles_left": waiting.asked.missing})
            self._settle({waiting.asked for waiting in batch}, refused)
            batch = None

    def _batch(self):
        """Returns the next image, and those of its size that wait directly behind it: no image overtakes
        another."""
        batch = [self._next or self._decoded.get()]
        self._next = None
        while len(batch) < self._limits.max_batch_images and not self._next:
            try:
                waiting = self._decoded.get_nowait()
            except queue.Empty:
                break
            if waiting.size == batch[0].size:
                batch.append(waiting)
            else:
                self._next = waiting
        return batch

    def _settle(self, these, refused):
        """Answers the requests that are complete or refused, in the order of arrival."""
        with self._lock:
            for asked in these:
                asked.refused = asked.refused or refused
            while self._asked and (self._asked[0].refused or self._asked[0].missing == 0):
                self._send(self._answer(self._asked.popleft()))

    def _answer(self, asked):
        model = self._model
        try:
            if asked.refused:
                raise asked.refused
            results = asked.results_of_images(model.ids)
            return {"outputs": ANSWERS[model.kind](results, model.names, model.ids),
                    "seconds": asked.seconds}
        except Refused as refused:
            return {"status": refused.status, "problem": str(refused)}


def checked(path, is_trusted, limits):
    """Returns (the model, a warning or None). Raises BadModel."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise BadModel(f"cannot be read ({error.strerror})") from None
    reason, warning = refusal(data), None
    if reason and not is_trusted:
        raise BadModel(f"{reason}; hint: convert the checkpoint yourself, or set "
                       "RETINA_TRUST_MODELS=1 if you know who made this file")
    if reason:
        most = limits.max_model_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        warning = f"{reason}; served all the same, since RETINA_TRUST_MODELS=1"
    return OnnxModel(data), warning


def requests(connection):
    """Yields the elements of each request and its tiling, until the server hangs up."""
    with connection.makefile("rb") as stream:
        while head := stream.read(LENGTH.size):
            message = json.loads(stream.read(*LENGTH.unpack(head)))
            yield [stream.read(size) for size in message["sizes"]], message["tiling"]


def main():
    settings = json.loads(sys.argv[1])
    limits = Limits(**settings["limits"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # sent by a terminal: the server ends first
    connection = socket.socket(fileno=os.dup(0))

    def send(message):
        with contextlib.suppress(ConnectionError):  # the server is gone
            connection.sendall(b"".join(frame(message)))

    try:
        model, warning = checked(settings["path"], settings["is_trusted"], limits)
    except BadModel as error:
        send({"problem": str(error)})
        return
    batch_images = limits.max_batch_images or (GPU_BATCH_IMAGES if model.has_gpu else 1)
    send({"kind": model.kind, "outputs": NAMES[model.kind], "provider": model.provider,
          "batch_images": batch_images, "warning": warning})
    limits = dataclasses.replace(limits, max_batch_images=batch_images)
    pipeline = Pipeline(model, limits, send)
    for elements, tiling in requests(connection):
        pipeline.add(elements, tiling)
    os._exit(0)  # even if the model still works


if __name__ == "__main__":
    main()
