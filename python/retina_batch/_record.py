"""Reads one record of a shard: an image and its annotations (shared/shard/FORMAT.md, "Record")."""
from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

import numpy
from numpy.typing import NDArray

from ._checks import damaged, matches_xxh3, other_version, optional_package

# Part of the format. magic, version, flags, image id, width, height, bytes of the annotation part
# and of the image, hashes of the payload and of the header before this last number.
_HEADER = struct.Struct("<4sHHqIIIIQQ")
_HEADER_HASH_AT = 40
_NEWEST_VERSION = 2
_RESCALED, _CONVERTED, _RAW = 1, 2, 4
_BOXES, _LABEL, _FILE_NAME, _TILE, _WHOLE_BOXES = 1, 2, 3, 4, 5
_CROWD, _PARTIAL = 1, 2
_TILE_PLACE = struct.Struct("<IIII")
_BOX = numpy.dtype([("id", "<i8"), ("bbox", "<f8", 4), ("area", "<f8"), ("label", "<i4"), ("flags", "<u4")])


class Tile(NamedTuple):
    """The place of a tile, in pixels of its image."""
    x: int
    y: int
    image_width: int
    image_height: int


@dataclass(frozen=True, eq=False)
class Boxes:
    """All boxes of a whole image; the attributes are those of Record."""
    boxes: NDArray[numpy.float64]
    labels: NDArray[numpy.int64]
    crowd: NDArray[numpy.bool_]
    areas: NDArray[numpy.float64]
    annotation_ids: NDArray[numpy.int64]


@dataclass(frozen=True, eq=False)
class Record:
    """An image of a data set, or a tile of one, with its boxes, or with its class.

    Attributes:
        image_id: the annotations' id of the image.
        file_name: as the annotations have it; empty in sets packed before names were kept.
        width, height: of the stored image, pixels.
        image: the stored bytes: a JPEG file, or where `encoding` is "raw" height x width x 3 bytes
            RGB, rows from top to bottom.
        encoding: "jpeg" or "raw".
        boxes: float64 [N, 4], x, y, width, height in pixels of the stored image: COCO's bbox,
            exactly as stored. See `corners`.
        labels: int64 [N], places in `Shards.classes`.
        crowd: bool [N], COCO's iscrowd.
        areas: float64 [N], COCO's area, square pixels.
        annotation_ids: int64 [N].
        partial: bool [N], of a tile's boxes those that it shows too little of to be objects there.
        label: the class of the whole image, a place in `Shards.classes`, in a classification set,
            which has no boxes; None in a detection set.
        rescaled: `--max-side` made image and boxes smaller than the source.
        converted: the image was made from another format or turned upright.
        tile: of a tile (`coco-pack --tile`) its place, else None; `image_id` and `file_name` are
            those of its image, `width`, `height` and `boxes` its own.
        whole: of an image's first tile the whole image's boxes, in its pixels; else None.
    """
    image_id: int
    file_name: str
    width: int
    height: int
    image: bytes
    encoding: str
    boxes: NDArray[numpy.float64]
    labels: NDArray[numpy.int64]
    crowd: NDArray[numpy.bool_]
    areas: NDArray[numpy.float64]
    annotation_ids: NDArray[numpy.int64]
    partial: NDArray[numpy.bool_]
    label: Optional[int]
    rescaled: bool
    converted: bool
    tile: Optional[Tile]
    whole: Optional[Boxes]

    def __repr__(self) -> str:
        content = f"{len(self.boxes)} boxes" if self.label is None else f"label {self.label}"
        place = f" at {self.tile.x}, {self.tile.y}" if self.tile else ""
        return f"<Record {self.image_id}: {self.file_name!r}, {self.width} x {self.height}{place}, {content}>"

    @property
    def corners(self) -> NDArray[numpy.float64]:
        """float64 [N, 4]: the boxes as x1, y1, x2, y2, like `Detections.corners`."""
        return numpy.hstack([self.boxes[:, :2], self.boxes[:, :2] + self.boxes[:, 2:]])

    def pixels(self) -> NDArray[numpy.uint8]:
        """Returns uint8 [height, width, 3], RGB. Decodes a JPEG by Pillow (ImportError without it)."""
        if self.encoding == "raw":
            stored: NDArray[numpy.uint8] = numpy.frombuffer(self.image, numpy.uint8).copy()
            return stored.reshape(self.height, self.width, 3)
        return decoded(io.BytesIO(self.image), "Record.pixels")


def decoded(file: Any, user: str) -> NDArray[numpy.uint8]:
    """Returns uint8 [H, W, 3], RGB, of an image file; like the programs, does not apply its EXIF
    orientation."""
    with optional_package("PIL.Image", "pillow", user).open(file) as image:
        pixels: NDArray[numpy.uint8] = numpy.array(image.convert("RGB"))
    return pixels


def decode_record(content: bytes, place: str) -> Record:
    """Parses and checks a record; `place` begins every message. Raises DataError."""
    if len(content) < _HEADER.size or not content.startswith(b"RREC"):
        raise damaged(place, "is not a retina-batch record")
    (_, version, flags, image_id, width, height, annotation_bytes, image_bytes, payload_hash,
     header_hash) = _HEADER.unpack_from(content)
    if version == 0 or not matches_xxh3(content[:_HEADER_HASH_AT], header_hash):
        raise damaged(place, "header is damaged (its checksum does not match)")
    if version > _NEWEST_VERSION:
        raise other_version(place, "record", version, _NEWEST_VERSION)
    payload = content[_HEADER.size:]
    if len(payload) != annotation_bytes + image_bytes:
        raise damaged(place, f"has a wrong length (got {len(payload)} payload bytes, want "
                             f"{annotation_bytes + image_bytes})")
    if not matches_xxh3(payload, payload_hash):
        raise damaged(place, "content is damaged (its checksum does not match)")
    is_raw = flags & _RAW != 0
    if width == 0 or height == 0 or (is_raw and image_bytes != width * height * 3):
        raise damaged(place, f"has an impossible image size (got {width} x {height} in {image_bytes} bytes)")
    record = Record(image_id=image_id, width=width, height=height, image=payload[annotation_bytes:],
                    encoding="raw" if is_raw else "jpeg", rescaled=flags & _RESCALED != 0,
                    converted=flags & _CONVERTED != 0, **_annotations(payload[:annotation_bytes], place))
    tile = record.tile
    if tile is not None and (tile.x + width > tile.image_width or tile.y + height > tile.image_height):
        raise damaged(place, f"tile lies outside its image (got {width} x {height} at {tile.x}, {tile.y} of "
                             f"{tile.image_width} x {tile.image_height})")
    return record


def _annotations(part: bytes, place: str) -> Dict[str, Any]:
    """Returns the fields of a Record that the annotation part has."""
    blocks: Dict[int, bytes] = {}
    for kind, content in _blocks(part, place):
        if kind in blocks:
            raise damaged(place, f"has more than one block of type {kind}")
        blocks[kind] = content
    label = blocks.get(_LABEL)
    if label is not None and (len(label) != 4 or _BOXES in blocks):
        raise damaged(place, "has a wrong class of the whole image")
    tile = blocks.get(_TILE)
    if (tile is not None and len(tile) != _TILE_PLACE.size) or (tile is None and _WHOLE_BOXES in blocks):
        raise damaged(place, "has a wrong place of a tile")
    whole = blocks.get(_WHOLE_BOXES)
    boxes = _boxes(blocks.get(_BOXES, b""), place)
    return {"file_name": blocks.get(_FILE_NAME, b"").decode(errors="surrogateescape"),
            "label": None if label is None else int.from_bytes(label, "little"),
            "tile": None if tile is None else Tile(*_TILE_PLACE.unpack(tile)),
            "whole": None if whole is None else Boxes(**_box_fields(_boxes(whole, place))),
            "partial": boxes["flags"] & _PARTIAL != 0, **_box_fields(boxes)}


def _boxes(content: bytes, place: str) -> NDArray[numpy.void]:
    if len(content) % _BOX.itemsize != 0:
        raise damaged(place, f"box block has a wrong length (got {len(content)} bytes, want a multiple of "
                             f"{_BOX.itemsize})")
    return numpy.frombuffer(content, _BOX)


def _box_fields(boxes: NDArray[numpy.void]) -> Dict[str, Any]:
    return {"boxes": boxes["bbox"].astype(numpy.float64), "labels": boxes["label"].astype(numpy.int64),
            "crowd": boxes["flags"] & _CROWD != 0, "areas": boxes["area"].astype(numpy.float64),
            "annotation_ids": boxes["id"].astype(numpy.int64)}


def _blocks(part: bytes, place: str) -> Iterator[Tuple[int, bytes]]:
    """Yields (type, content) of all blocks, even of unknown types, which a later writer may add and the
    caller skips."""
    at = 0
    while at < len(part):
        kind, size = struct.unpack_from("<II", part, at) if at + 8 <= len(part) else (0, len(part))
        if at + 8 + size > len(part):
            raise damaged(place, "annotation block is cut short")
        yield kind, part[at + 8:at + 8 + size]
        at += 8 + size
