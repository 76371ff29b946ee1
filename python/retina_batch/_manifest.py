"""Reads manifest.json of a packed data set, and its index.bin (shared/shard/FORMAT.md)."""
from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy
from numpy.typing import NDArray

from ._checks import damaged, data_error, matches_xxh3, other_version

_FORMAT, _MANIFEST_VERSION, _INDEX_VERSION = "retina-batch shards", 3, 6
_TASKS = ("detection", "classification")
# The manifest's text ends with its own hash, which is of the text with zeros in the place of the digits.
_HASH_KEY, _HASH_DIGITS, _END = b'"xxh3": "', 16, b'"\n}\n'

# Part of the format: magic, version, bytes of an entry, entries, hash.
_INDEX_HEADER = struct.Struct("<4sHHQQ")
_ENTRY = numpy.dtype([("image_id", "<i8"), ("width", "<u4"), ("height", "<u4"), ("boxes", "<u4"),
                      ("trainable_boxes", "<u4"), ("shard", "<u4"), ("place", "<u4")])


@dataclass(frozen=True)
class ListedFile:
    """A file, as listed in the manifest."""
    path: str
    size_bytes: int
    xxh3: int

    def check_size(self) -> None:
        got = os.stat(self.path).st_size
        if got != self.size_bytes:
            problem = "is cut short" if got < self.size_bytes else "is too long"
            raise damaged(self.path, f"{problem} (got {got} bytes, want {self.size_bytes})")


@dataclass(frozen=True)
class Manifest:
    content: Dict[str, Any]
    task: str
    classes: Tuple[str, ...]
    category_ids: Tuple[int, ...]
    shards: List[ListedFile]
    record_counts: List[int]  # of each shard
    index: ListedFile


def read_manifest(folder: str) -> Manifest:
    """Reads a manifest. Raises DataError, and FileNotFoundError where the folder is not a packed data
    set."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{path}: does not exist: this is not a packed data set; hint: give the folder "
                                "that coco-pack --output wrote") from None
    try:
        content = json.loads(text)
        format_name, version, task = content["format"], content["version"], content["task"]
    except (ValueError, KeyError, TypeError):
        raise damaged(path, "is not a shard manifest") from None
    if format_name != _FORMAT:
        raise damaged(path, f'is not a shard manifest (got format "{format_name}", want "{_FORMAT}")')
    if not isinstance(version, int):
        raise damaged(path, "is not a shard manifest")
    if version != _MANIFEST_VERSION:
        raise other_version(path, "format", version, _MANIFEST_VERSION)
    if task not in _TASKS:
        raise damaged(path, f'was made for another task (got "{task}", want {"|".join(_TASKS)})')
    if not _has_its_hash(text):
        raise data_error(path, "is damaged or was edited (its checksum does not match)",
                         "copy the data set again, or pack it again with coco-pack")
    try:
        return _manifest_of(content, folder)
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"is damaged ({type(error).__name__}: {error})") from None


def _has_its_hash(text: bytes) -> bool:
    before, digits = text[:-len(_END) - _HASH_DIGITS], text[-len(_END) - _HASH_DIGITS:-len(_END)]
    try:
        wanted = int(digits, 16)
    except ValueError:
        return False
    return (text.endswith(_END) and before.endswith(_HASH_KEY)
            and matches_xxh3(before + b"0" * _HASH_DIGITS + _END, wanted))


def _manifest_of(content: Dict[str, Any], folder: str) -> Manifest:
    def listed(entry: Dict[str, Any]) -> ListedFile:
        name = entry["file"]
        if not name or "/" in name:  # a name that leads out of the folder is not ours
            raise ValueError(f'bad file name "{name}"')
        return ListedFile(os.path.join(folder, name), int(entry["bytes"]), int(entry["xxh3"], 16))

    record_counts = [int(shard["records"]) for shard in content["shards"]]
    if any(count < 0 for count in record_counts):
        raise ValueError("negative number of records")
    return Manifest(content=content, task=content["task"],
                    classes=tuple(str(one["name"]) for one in content["categories"]),
                    category_ids=tuple(int(one["id"]) for one in content["categories"]),
                    shards=[listed(shard) for shard in content["shards"]],
                    record_counts=record_counts,
                    index=listed(content["index"]))


@dataclass(frozen=True, eq=False)
class Index:
    """`index.bin`, in the order of (shard, place)."""
    entries: NDArray[numpy.void]
    file_names: List[str]
    tiles: Optional[NDArray[numpy.uint32]]  # [n, 4] x, y, image width, image height; None: whole images


def read_index(manifest: Manifest) -> Index:
    """Reads an index. Raises DataError, OSError."""
    path = manifest.index.path
    manifest.index.check_size()
    with open(path, "rb") as file:
        content = file.read()
    if len(content) < _INDEX_HEADER.size or not content.startswith(b"RIDX"):
        raise damaged(path, "is not an image index of a shard set")
    _, version, entry_bytes, count, _ = _INDEX_HEADER.unpack_from(content)
    if version != _INDEX_VERSION:
        raise other_version(path, "index", version, _INDEX_VERSION)
    rows_at = _INDEX_HEADER.size + count * _ENTRY.itemsize
    if entry_bytes != _ENTRY.itemsize or rows_at > len(content):
        raise damaged(path, f"has a wrong length (got {len(content)} bytes, want {count} entries of "
                            f"{_ENTRY.itemsize})")
    if not matches_xxh3(content, manifest.index.xxh3):
        raise damaged(path, "is damaged, or belongs to another data set (its checksum does not match)")
    entries = numpy.frombuffer(content, _ENTRY, count, _INDEX_HEADER.size)
    _check_places(entries, manifest)
    names, at = _file_names(content, _skip_labels(content, rows_at, count, path), count, path)
    left = len(content) - at  # for tiles their places, then hashes of the images
    if left not in (8 * count, 24 * count):
        raise damaged(path, f"has a wrong length (got {left} bytes behind the file names)")
    is_tiled = left > 8 * count
    return Index(entries, names, numpy.frombuffer(content, "<u4", 4 * count, at).reshape(count, 4) if is_tiled else None)


def _check_places(entries: NDArray[numpy.void], manifest: Manifest) -> None:
    counts = manifest.record_counts
    matches = len(entries) == sum(counts)  # before numpy allocates memory for that many
    if matches:
        shards = numpy.repeat(numpy.arange(len(counts)), counts)
        places = numpy.concatenate([numpy.arange(0), *map(numpy.arange, counts)])
        matches = (entries["shard"] == shards).all() and (entries["place"] == places).all()
    if not matches:
        raise damaged(manifest.index.path, "does not list the records of the manifest's shards (got "
                                           f"{len(entries)} images, want {sum(counts)})")


def _row(content: bytes, at: int, unit_bytes: int, path: str) -> Tuple[int, int]:
    """Returns (first byte, end) of a row of units after their u32 number."""
    count = int.from_bytes(content[at:at + 4], "little")
    end = at + 4 + count * unit_bytes
    if end > len(content):
        raise damaged(path, "ends inside its labels or file names")
    return at + 4, end


def _skip_labels(content: bytes, at: int, count: int, path: str) -> int:
    for _ in range(count):
        _, at = _row(content, at, 4, path)
    return at


def _file_names(content: bytes, at: int, count: int, path: str) -> Tuple[List[str], int]:
    names = []
    for _ in range(count):
        first, at = _row(content, at, 1, path)
        names.append(content[first:at].decode(errors="surrogateescape"))
    return names, at
