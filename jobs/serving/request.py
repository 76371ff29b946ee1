"""Parses a request to a model and checks its limits: the server's half, which decodes nothing.
images.py continues with the elements. This module does not depend on MLServer.
"""
import dataclasses
import math
import reprlib
import typing

INPUT = "image"
SIDES_PX, MOST_OVERLAP, OVERLAP = (32, 16384), 0.9, 0.2  # for tiles: as in retina-eval
BAD, TOO_LARGE, FAILED, BUSY = 400, 413, 500, 503  # HTTP
FEWER = "hint: send fewer images at a time"


class Refused(Exception):
    """Refuses a request with an HTTP status and one line for the client."""

    def __init__(self, status, problem):
        super().__init__(" ".join(str(problem).split()))
        self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of a model. The body and the largest image bound a request's memory, all its pixels its
    time; together with the number of requests they bound the server's."""
    max_requests: int = 16
    max_body_seconds: int = 60
    max_images: int = 32
    max_image_pixels: int = 50_000_000
    max_request_pixels: int = 200_000_000
    max_body_bytes: int = 32 << 20
    max_values: int = 10_000
    max_tiles: int = 256
    max_batch_images: int = 0  # 0: the model's process decides
    max_image_seconds: int = 60
    max_load_seconds: int = 300
    max_model_bytes: int = 4 << 30

    @classmethod
    def of_settings(cls, extra):
        """Reads `parameters.extra` of the model's settings. Raises ValueError."""
        given = {key: value for key, value in (extra or {}).items() if key.startswith("max_")}
        for key, value in given.items():
            if key not in cls.__dataclass_fields__:
                names = ", ".join(cls.__dataclass_fields__)
                raise ValueError(f"extra: no {key} (there are {names})")
            least = min(1, cls.__dataclass_fields__[key].default)
            if type(value) is not int or value < least:
                raise ValueError(f"extra: {key}: {value!r} (want a whole number from {least})")
        return cls(**given)


class Tensor(typing.NamedTuple):
    """An input of the V2 protocol; `data` is its elements, which clients may nest."""
    name: str
    datatype: str
    shape: list
    data: typing.Any


class Tiling(typing.NamedTuple):
    side_px: int
    overlap: float  # of neighbours, as a share of the side


def tiling_of(tile, overlap):
    """Returns the tiling of a request's parameters; None where images stay whole. The parameters are None
    or JSON values; gRPC has no fractions, so they may be texts. Raises Refused."""
    if tile is None:
        if overlap is not None:
            raise Refused(BAD, "tile_overlap: has no effect without tile; hint: give tile, too")
        return None

    def number(name, given, kind, least, most):
        try:
            value = None if isinstance(given, (bool, list, dict)) else kind(given)
        except (OverflowError, TypeError, ValueError):
            value = None
        exact = value is not None and (isinstance(given, str) or value == given)
        if not exact or not least <= value <= most:
            raise Refused(BAD, f"{name}: {reprlib.repr(given)} (want a {'whole ' * (kind is int)}number "
                          f"from {least} to {most})")
        return value

    return Tiling(number("tile", tile, int, *SIDES_PX),
                  number("tile_overlap", OVERLAP if overlap is None else overlap, float, 0,
                         MOST_OVERLAP))


def elements_of(tensors, limits):
    """Returns the elements of a request's only tensor, as bytes: raw (gRPC), or base64 (JSON cannot hold
    bytes). Raises Refused."""
    if [tensor.name for tensor in tensors] != [INPUT]:
        names = ", ".join(reprlib.repr(tensor.name) for tensor in tensors[:3]) or "none"
        raise Refused(BAD, f"inputs: want one tensor, {INPUT} (got {len(tensors)}: {names})")
    [tensor] = tensors
    if tensor.datatype != "BYTES":
        raise Refused(BAD, f"{INPUT}: datatype {tensor.datatype[:20]} (want BYTES)")
    found = list(encoded(flat(tensor.data, limits.max_images)))
    if not found or len(tensor.shape) > 8 or math.prod(tensor.shape) != len(found):
        raise Refused(BAD, f"{INPUT}: {len(found)} elements in a tensor of shape "
                      f"{reprlib.repr(tensor.shape)} (want one or more, as many as the shape says)")
    length = sum(map(len, found))
    if length > limits.max_body_bytes:  # over gRPC no header gives the length
        raise Refused(TOO_LARGE,
                      f"{INPUT}: {length} bytes (the limit is {limits.max_body_bytes}); {FEWER}")
    return found


def check_values(count, limits):
    """Refuses requests of too many values: MLServer makes an object of each while no other request is
    answered."""
    if count > limits.max_values:
        raise Refused(TOO_LARGE, f"body: {count} values (the limit is {limits.max_values})")


def outputs_of(asked, there):
    """Returns the outputs that a request names, or all. Raises Refused."""
    for number, name in enumerate(asked):
        if name not in there or name in asked[:number]:
            raise Refused(BAD, f"outputs: {'no' if name not in there else 'twice'} {name[:50]} (there "
                          f"are {', '.join(there)})")
    return asked or there


def flat(data, most):
    """Returns the elements of a tensor's nested data. Raises Refused for more than `most`."""
    found, unfinished = [], [iter([data])]
    while unfinished:
        for item in unfinished[-1]:
            if isinstance(item, (list, tuple)):
                unfinished.append(iter(item))
                break
            if len(found) == most:
                raise Refused(TOO_LARGE, f"{INPUT}: more than {most} images (the limit); {FEWER}")
            found.append(item)
        else:
            unfinished.pop()
    return found


def encoded(found):
    for number, item in enumerate(found):
        if isinstance(item, str):
            item = item.encode("utf-8", "surrogatepass")
        elif not isinstance(item, bytes):
            raise Refused(BAD, f"{INPUT}[{number}]: {type(item).__name__} (want a JPEG as base64)")
        yield item
