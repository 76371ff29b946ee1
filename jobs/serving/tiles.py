"""Cuts large images into overlapping tiles, and merges the tiles' detections to detections on the
image. Both follow retina-eval --tile: shared/image/tile_grid.h and, for its defaults (merge=nms,
match=iou), shared/evaluation/predict/tile_merge.h.
"""
import math
import typing

import numpy

THRESHOLD = 0.5  # retina-eval's match-threshold


class Rect(typing.NamedTuple):
    """A rectangle in pixels of the image."""
    x: int
    y: int
    width: int
    height: int


def starts(length, side, overlap):
    """Returns the offsets of the tiles along a side of the image."""
    shared = math.floor(side * overlap)
    shared += side * overlap - shared >= 0.5
    stride = max(1, side - shared)
    found = [0]
    while length - found[-1] > side:
        found.append(min(length - side, found[-1] + stride))
    return found


def tiles_of(width, height, tiling):
    """Returns all tiles of an image, followed by the whole image if it is larger than one."""
    side, overlap = tiling
    tiles = [Rect(x, y, min(side, width), min(side, height))
             for y in starts(height, side, overlap) for x in starts(width, side, overlap)]
    return tiles if len(tiles) == 1 else [*tiles, Rect(0, 0, width, height)]


def tile_count(width, height, tiling):
    """Returns how many tiles_of() returns, without making them."""
    side, overlap = tiling
    count = len(starts(width, side, overlap)) * len(starts(height, side, overlap))
    return count if count == 1 else count + 1


def cut(planes, width, height, rect):
    """Copies the tile's planes from the image's."""
    image = numpy.frombuffer(planes, numpy.uint8).reshape(3, height, width)
    return image[:, rect.y:rect.y + rect.height, rect.x:rect.x + rect.width].tobytes()


def match(one, others):
    """Returns which of `others` [n, 4] share THRESHOLD of their union with `one` [4], in float32."""
    sides = numpy.minimum(others[:, 2:], one[2:]) - numpy.maximum(others[:, :2], one[:2])
    shared = numpy.prod(numpy.maximum(sides, 0), axis=1)
    whole = numpy.prod(one[2:] - one[:2]) + numpy.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return (whole > 0) & (shared / whole >= numpy.float32(THRESHOLD))


def total_order(boxes, scores, ids):
    """Returns indices ordered by score, category, corners."""
    return numpy.lexsort((*boxes.T[::-1], ids, -scores))


class Places:
    """Indexes boxes by position: those of about one size in cells of that size, by their upper left
    corners. Merging would otherwise compare each of a class with each."""

    def __init__(self, boxes):
        sides = numpy.maximum((boxes[:, 2:] - boxes[:, :2]).max(axis=1), 1)
        sizes = numpy.exp2(numpy.ceil(numpy.log2(sides)) + 1)  # above the sides, however rounded
        cells = numpy.floor(boxes[:, :2] / sizes[:, None]).astype(int)
        self._of_size = {}
        for place, (size, cell) in enumerate(zip(sizes.tolist(), map(tuple, cells.tolist()))):
            self._of_size.setdefault(size, {}).setdefault(cell, []).append(place)

    def near(self, box):
        """Yields all boxes that can touch the box, and some others."""
        for size, cells in self._of_size.items():
            left, top = (math.floor(edge / size) - 1 for edge in box[:2])
            right, bottom = (math.floor(edge / size) + 1 for edge in box[2:])
            if (right - left) * (bottom - top) > len(cells):
                for places in cells.values():
                    yield from places
            else:
                for x in range(left, right):
                    for y in range(top, bottom):
                        yield from cells.get((x, y), ())


def kept_of(boxes):
    """Returns the indices of the boxes of a class, in the total order, that are kept."""
    kept, is_there = [], [True] * len(boxes)
    rounded, places = boxes.astype(numpy.float32), Places(boxes)
    for best, box in enumerate(boxes.tolist()):
        if not is_there[best]:
            continue
        is_there[best] = False
        kept.append(best)
        near = [place for place in places.near(box) if is_there[place]]
        if not near:
            continue
        for place in numpy.asarray(near)[match(rounded[best], rounded[near])].tolist():
            is_there[place] = False
    return kept


def merge(found, rects, ids):
    """Returns an image's detections (boxes [n][4], scores [n], labels [n]), best first. `found`: the same
    for each of its tiles, in their pixels; `ids`: the category of each label."""
    parts = []
    for (boxes, _, _), rect in zip(found, rects, strict=True):
        corners = numpy.asarray(boxes, numpy.float32).reshape(-1, 4)
        sides = corners[:, 2:] - corners[:, :2]  # f32, as in a results file
        low = corners[:, :2].astype(float) + (rect.x, rect.y)
        parts.append(numpy.concatenate([low, low + sides], axis=1))
    boxes = numpy.concatenate(parts)
    scores = numpy.asarray([score for _, row, _ in found for score in row], float)
    labels = numpy.asarray([label for _, _, row in found for label in row], int)
    categories = numpy.asarray(ids)[labels]
    order = total_order(boxes, scores, categories)
    kept = []
    for label in numpy.unique(labels):
        of_class = order[labels[order] == label]
        kept += of_class[kept_of(boxes[of_class])].tolist()
    kept = numpy.asarray(kept, int)
    kept = kept[total_order(boxes[kept], scores[kept], categories[kept])]
    return boxes[kept].tolist(), scores[kept].tolist(), labels[kept].tolist()
