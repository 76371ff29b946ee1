"""A packed data set as a sequence of its records."""
from __future__ import annotations

import copy
import operator
import os
from collections.abc import Sequence
from typing import Any, Dict, List, Optional, Tuple, Union, overload

import numpy
from numpy.typing import NDArray

from ._checks import damaged
from ._lmdb import record_spans
from ._manifest import read_index, read_manifest
from ._record import Record, decode_record


class Shards(Sequence["Record"]):
    """A folder that coco-pack wrote, as a read-only sequence of its records.

        shards = Shards("shards/val")
        len(shards), shards.classes, shards[0].file_name, shards[-1].boxes
        for record in shards[:100]: ...

    Opening reads `manifest.json` and `index.bin` and compares the sizes of the files; a record is
    read when it is asked for, a slice is a view that reads nothing. No file stays open, none is
    locked or written: a data set on a read-only mount will do, and an instance can be sent to other
    processes.

    Lengths, offsets, versions, and the agreement of records, index and manifest are always checked,
    checksums only where the package xxhash is installed. `coco-pack --verify FOLDER` proves every
    byte.

    Raises DataError for a file that is damaged, foreign or newer, and OSError for one that cannot be read
    (FileNotFoundError for a folder that is not a packed data set): here, and where a record is read.

    Attributes:
        path: the folder.
        task: "detection", or "classification": each image has one class and no boxes.
        classes: names; a label is a place in it.
        category_ids: those of the annotations, in the same order.
        manifest: all of `manifest.json`: `counts`, `categories`, `options`, ...
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        self._manifest = read_manifest(self.path)
        self.manifest: Dict[str, Any] = self._manifest.content
        self.task: str = self._manifest.task
        self.classes: Tuple[str, ...] = self._manifest.classes
        self.category_ids: Tuple[int, ...] = self._manifest.category_ids
        index = read_index(self._manifest)
        self._entries, self._file_names, self._tiles = index.entries, index.file_names, index.tiles
        self._places = range(len(self._entries))  # in the index, of this view's records
        # Places of the records in each shard that was read; views share it.
        self._spans: Dict[int, NDArray[numpy.int64]] = {}
        for shard in self._manifest.shards:
            shard.check_size()

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, item: int) -> Record: ...

    @overload
    def __getitem__(self, item: slice) -> Shards: ...

    def __getitem__(self, item: Union[int, slice]) -> Union[Record, Shards]:
        if isinstance(item, slice):
            view = copy.copy(self)
            view._places = self._places[item]
            return view
        place = operator.index(item)
        if not -len(self) <= place < len(self):
            raise IndexError(f"{self.path}: no record {place} (got {len(self)} records)")
        return self._read(self._places[place])

    def __repr__(self) -> str:
        return f"<Shards {self.path!r}: {len(self)} images, {len(self.classes)} classes, {self.task}>"

    @property
    def images(self) -> NDArray[numpy.void]:
        """Returns a row for each record, in order, without reading it: a structured array of `image_id`,
        `width`, `height`, `boxes` (their number), `trainable_boxes`, `shard`, `place` (in it)."""
        return self._entries[numpy.arange(self._places.start, self._places.stop, self._places.step)]

    @property
    def file_names(self) -> List[str]:
        """Returns the name of each record's image, in order, without reading it."""
        return [self._file_names[place] for place in self._places]

    @property
    def tiles(self) -> Optional[NDArray[numpy.uint32]]:
        """Returns [len, 4]: each record's x and y in its image, and the image's width and height, without
        reading it; None where the records are whole images."""
        if self._tiles is None:
            return None
        return self._tiles[numpy.arange(self._places.start, self._places.stop, self._places.step)]

    def _read(self, place: int) -> Record:
        entry, file_name = self._entries[place], self._file_names[place]
        shard = self._manifest.shards[entry["shard"]]
        offset, size = self._spans_of(int(entry["shard"]))[entry["place"]]
        with open(shard.path, "rb") as file:
            file.seek(offset)
            content = file.read(size)
        name = f"{shard.path}: record {entry['place']}" + (f" ({file_name})" if file_name else "")
        record = decode_record(content, name)
        tile = None if self._tiles is None else tuple(map(int, self._tiles[place]))
        got = (record.image_id, record.file_name, record.width, record.height, len(record.boxes), record.tile)
        want = (entry["image_id"], file_name, entry["width"], entry["height"], entry["boxes"], tile)
        if got != want:
            raise damaged(name, f"disagrees with the index (got image {got[0]}, {got[1]}, want {want[0]}, "
                                f"{want[1]})")
        self._check_labels(record, name)
        return record

    def _spans_of(self, number: int) -> NDArray[numpy.int64]:
        if number not in self._spans:
            path, wanted = self._manifest.shards[number].path, self._manifest.record_counts[number]
            spans = record_spans(path)
            if len(spans) != wanted:
                raise damaged(path, f"wrong number of records (got {len(spans)}, want {wanted})")
            self._spans[number] = spans
        return self._spans[number]

    def _check_labels(self, record: Record, name: str) -> None:
        if (record.label is None) != (self.task == "detection"):
            raise damaged(name, f"does not belong in a {self.task} set")
        for label in record.labels if record.label is None else [record.label]:
            if not 0 <= label < len(self.classes):
                raise damaged(name, f"class label is out of range (got {label}, want less than "
                                    f"{len(self.classes)})")
