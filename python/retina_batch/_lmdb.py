"""Finds the records of a shard in its file, an LMDB 0.9 environment.

liblmdb itself is not used: it follows the offsets of a file unchecked, so that a damaged one ends
the process, and it needs a library for each system. Like the C++ reader (shared/shard/shard_tree.cpp),
this one checks every offset. It reads pages with seek and read instead of a memory map: that works
on every mount, and a file that is cut while it is in use is an error, not a signal.
"""
from __future__ import annotations

import struct
from typing import BinaryIO, Iterator, NoReturn, Set, Tuple

import numpy
from numpy.typing import NDArray

from ._checks import damaged

# Page header: u64 page number, u16, u16 flags, then the u16 end of the node offsets, which follow
# the header. Numbers are in the byte order of the machine that packed, little-endian.
_PAGE_HEADER = struct.Struct("<QHHHH")
_BRANCH, _LEAF, _KINDS = 0x01, 0x02, 0x7F

# Node: u32 and u16 number, u16 bytes of the key, key. In a branch the number is the child's page, 48
# bits; in a leaf 32 bits are the bytes of the value, 16 are flags, and behind the key comes the
# value or the u64 number of the first of its overflow pages.
_NODE = struct.Struct("<IHH")
_KEY_BYTES = 8
_ON_OVERFLOW_PAGES = 0x01

# Meta pages 0 and 1: page header, u32 magic, u32 version, ..., at 40 u32 page size, at 128 u64 root
# page, at 144 u64 transaction. The one with the later transaction counts.
_META = struct.Struct("<16xII16xI84xQ8xQ")
_MAGIC, _VERSION, _NO_PAGE, _MOST_DEPTH = 0xBEEFC0DE, 1, 2**64 - 1, 32


def record_spans(path: str) -> NDArray[numpy.int64]:
    """Returns [records, 2]: offset and bytes of each record in the file, by key: 0, 1, 2, ...

    Raises DataError where the file is not such an environment, and OSError.
    """
    with open(path, "rb") as file:
        spans = list(_Tree(file, path).records())
    return numpy.array(spans, dtype=numpy.int64).reshape(-1, 2)


class _Tree:
    def __init__(self, file: BinaryIO, path: str) -> None:
        self.file, self.path = file, path
        self.file_bytes = file.seek(0, 2)
        self.used: Set[int] = set()
        self.record_count = 0
        magic, _, self.page_bytes, *_ = self.meta_at(0)
        if magic != _MAGIC or self.page_bytes not in {2**bits for bits in range(9, 17)}:
            raise damaged(path, "is not an LMDB file for this kind of machine")
        self.page_count = self.file_bytes // self.page_bytes

    def records(self) -> Iterator[Tuple[int, int]]:
        newest = max((self.meta_at(page) for page in (0, self.page_bytes)), key=lambda meta: meta[-1])
        magic, version, _, root, _ = newest
        if magic != _MAGIC or version != _VERSION:
            raise damaged(self.path, "its newer meta page is not one of LMDB 0.9")
        if root != _NO_PAGE:
            yield from self.visit(root, 1)

    def meta_at(self, offset: int) -> Tuple[int, ...]:
        return _META.unpack(self.read(offset, _META.size))

    def read(self, offset: int, size: int) -> bytes:
        self.file.seek(offset)
        content = self.file.read(size)
        if len(content) != size:
            raise damaged(self.path, f"is cut short (got {self.file_bytes} bytes, want at least "
                                     f"{offset + size})")
        return content

    def fail(self, page: int, problem: str) -> NoReturn:
        raise damaged(self.path, f"is damaged: page {page} {problem}")

    def visit(self, number: int, depth: int) -> Iterator[Tuple[int, int]]:
        """Yields the records below a page, each page once: a cycle of pages would not end."""
        if not 2 <= number < self.page_count:
            self.fail(number, "lies outside the file")
        if number in self.used or depth > _MOST_DEPTH:
            self.fail(number, "is used twice")
        self.used.add(number)
        page = self.read(number * self.page_bytes, self.page_bytes)
        stated, _, flags, offsets_end, _ = _PAGE_HEADER.unpack_from(page)
        kind = flags & _KINDS
        if stated != number or kind not in (_BRANCH, _LEAF):
            self.fail(number, "is not a page of the tree")
        if not _PAGE_HEADER.size <= offsets_end <= self.page_bytes or offsets_end % 2 != 0:
            self.fail(number, "has a wrong number of nodes")
        for at in range(_PAGE_HEADER.size, offsets_end, 2):
            node, = struct.unpack_from("<H", page, at)
            if node < offsets_end or node + _NODE.size > self.page_bytes:
                self.fail(number, "has a node outside it")
            if kind == _LEAF:
                yield self.record_at(number, page, node)
            else:
                low, high, _ = _NODE.unpack_from(page, node)
                yield from self.visit(low | high << 32, depth + 1)

    def record_at(self, number: int, page: bytes, node: int) -> Tuple[int, int]:
        value_bytes, flags, key_bytes = _NODE.unpack_from(page, node)
        key_at = node + _NODE.size
        value_at = key_at + _KEY_BYTES
        key = page[key_at:value_at]
        if key_bytes != _KEY_BYTES or key != self.record_count.to_bytes(_KEY_BYTES, "big"):
            self.fail(number, f"lacks record {self.record_count}")
        self.record_count += 1
        if flags == 0 and value_at + value_bytes <= self.page_bytes:
            return number * self.page_bytes + value_at, value_bytes
        if flags != _ON_OVERFLOW_PAGES or value_at + 8 > self.page_bytes:
            self.fail(number, f"has record {self.record_count - 1} outside it")
        first, = struct.unpack_from("<Q", page, value_at)
        offset = first * self.page_bytes + _PAGE_HEADER.size
        if not 2 <= first < self.page_count or offset + value_bytes > self.file_bytes:
            self.fail(number, f"has record {self.record_count - 1} outside the file")
        return offset, value_bytes
