"""Errors of this package's readers about files with wrong content, and checks that they share."""
from __future__ import annotations

import importlib
from typing import Any

try:
    import xxhash
except ImportError:  # optional: without it, no checksum is compared
    xxhash = None  # type: ignore[assignment]

DAMAGED_HINT = "the data set is damaged; copy it again, or pack it again with coco-pack"


class DataError(ValueError):
    """The content of a file is wrong: damaged, foreign, or written by another version.

    The text is one line, `FILE: problem (got X, want Y); hint: what to do`.
    """


def data_error(place: str, problem: str, hint: str) -> DataError:
    text = f"{place}: {problem}; hint: {hint}"
    # Names in files may hold any character; a line break would split the line.
    return DataError("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))


def damaged(place: str, problem: str) -> DataError:
    return data_error(place, problem, DAMAGED_HINT)


def other_version(place: str, part: str, version: int, wanted: int) -> DataError:
    is_newer = version > wanted
    return data_error(place, f"was written by {'a newer' if is_newer else 'an earlier'} version (got {part} version "
                             f"{version}, want {wanted})",
                      "update retina-batch, or pack the data with this version" if is_newer else
                      "pack the data again: coco-pack with --overwrite")


def matches_xxh3(content: bytes, wanted: int) -> bool:
    """Returns whether XXH3-64 of the content is `wanted`; True without the package xxhash."""
    return xxhash is None or bool(xxhash.xxh3_64_intdigest(content) == wanted)


def optional_package(module: str, package: str, user: str) -> Any:
    """Imports the module. Raises ImportError with the package's name where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{user} needs the package {package} ({error}); hint: pip install "
                          f"{package}") from None
