"""From a request to pictures, within limits: what retina_service.py takes in.

What a client declares is checked before it is paid for: the elements' sizes before base64 is decoded,
all JPEGs' headers before the first JPEG is decoded; admission.py has the body's. Knows nothing of
MLServer and PyTorch.
"""
import base64
import binascii
import dataclasses
import io
import math
import reprlib
import typing

from PIL import Image, UnidentifiedImageError

INPUT = "image"
BAD, TOO_LARGE = 400, 413  # HTTP
FEWER = "hint: send fewer pictures at a time"
Image.MAX_IMAGE_PIXELS = None  # Limits takes its place


class Refused(Exception):
    """The client's mistake: an HTTP status and one line."""

    def __init__(self, status, problem):
        super().__init__(" ".join(str(problem).split()))
        self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of one request the body and the largest picture bound its memory, all pixels its time; with the
    number of requests they bound the server's."""
    max_requests: int = 16
    max_body_seconds: int = 60
    max_pictures: int = 32
    max_picture_pixels: int = 50_000_000
    max_request_pixels: int = 200_000_000
    max_body_bytes: int = 32 << 20

    @classmethod
    def of_settings(cls, extra):
        """From `parameters.extra` of the model's settings; raises ValueError."""
        given = {key: value for key, value in (extra or {}).items() if key.startswith("max_")}
        for key, value in given.items():
            if key not in cls.__dataclass_fields__:
                names = ", ".join(cls.__dataclass_fields__)
                raise ValueError(f"extra: no {key} (there are {names})")
            if type(value) is not int or value < 1:
                raise ValueError(f"extra: {key}: {value!r} (want a whole number from 1)")
        return cls(**given)


class Tensor(typing.NamedTuple):
    """An input of the V2 protocol; `data` is its elements, which clients may nest."""
    name: str
    datatype: str
    shape: list
    data: typing.Any


class Jpeg(typing.NamedTuple):
    place: str  # image[3], for errors
    data: bytes
    width: int
    height: int


def jpegs_of(tensors, limits):
    """The JPEGs of a request in order, all checked, none decoded."""
    if [tensor.name for tensor in tensors] != [INPUT]:
        names = ", ".join(reprlib.repr(tensor.name) for tensor in tensors[:3]) or "none"
        raise Refused(BAD, f"inputs: want one tensor, {INPUT} (got {len(tensors)}: {names})")
    [tensor] = tensors
    if tensor.datatype != "BYTES":
        raise Refused(BAD, f"{INPUT}: datatype {tensor.datatype} (want BYTES)")
    files = elements(tensor.data, limits.max_pictures)
    if not files or len(tensor.shape) > 8 or math.prod(tensor.shape) != len(files):
        raise Refused(BAD, f"{INPUT}: {len(files)} elements in a tensor of shape "
                      f"{reprlib.repr(tensor.shape)} (want one or more, as many as the shape says)")
    length = sum(len(file) for file in files if isinstance(file, (str, bytes)))
    if length > limits.max_body_bytes:  # of gRPC: no header has told
        raise Refused(TOO_LARGE,
                      f"{INPUT}: {length} bytes (the limit is {limits.max_body_bytes}); {FEWER}")
    jpegs = [jpeg_of(f"{INPUT}[{number}]", file, limits) for number, file in enumerate(files)]
    pixels = sum(jpeg.width * jpeg.height for jpeg in jpegs)
    if pixels > limits.max_request_pixels:
        raise Refused(TOO_LARGE, f"{INPUT}: {pixels} pixels in all (the limit is "
                      f"{limits.max_request_pixels}); {FEWER}")
    return jpegs


def elements(data, most):
    """The elements of a tensor's data, at most `most`."""
    found, unfinished = [], [iter([data])]
    while unfinished:
        for item in unfinished[-1]:
            if isinstance(item, (list, tuple)):
                unfinished.append(iter(item))
                break
            if len(found) == most:
                raise Refused(TOO_LARGE, f"{INPUT}: more than {most} pictures (the limit); {FEWER}")
            found.append(item)
        else:
            unfinished.pop()
    return found


def jpeg_of(place, value, limits):
    """One element of the BYTES tensor: raw (gRPC), or base64 (JSON can hold no bytes)."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    elif not isinstance(value, bytes):
        raise Refused(BAD, f"{place}: {type(value).__name__} (want a JPEG as base64)")
    if value[:2] != b"\xff\xd8":
        try:
            value = base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise Refused(BAD, f"{place}: neither JPEG bytes nor base64 ({error})") from None
    with opened(place, value) as picture:
        width, height = picture.size
    if width * height > limits.max_picture_pixels:
        raise Refused(TOO_LARGE, f"{place}: picture of {width}x{height} pixels (the limit is "
                      f"{limits.max_picture_pixels} in all)")
    return Jpeg(place, value, width, height)


def opened(place, data):
    """Pillow's picture, of which only the header has been read."""
    try:
        return Image.open(io.BytesIO(data), formats=("JPEG",))
    except UnidentifiedImageError:
        raise Refused(BAD, f"{place}: not a JPEG ({len(data)} bytes)") from None
    except Exception as error:  # damaged files make Pillow raise almost anything
        raise Refused(BAD, f"{place}: the JPEG cannot be decoded ({error})") from None


def decoded(jpeg):
    """uint8 [3, height, width] RGB, as retina-eval decodes: grey and CMYK become RGB, no EXIF
    rotation."""
    size = jpeg.width * jpeg.height
    with opened(jpeg.place, jpeg.data) as picture:
        try:
            rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
            # Plane by plane: a Pillow picture has four bytes a pixel, interleaved.
            planes = bytearray(3 * size)
            for band in range(3):
                planes[band * size:(band + 1) * size] = rgb.getchannel(band).tobytes()
        except MemoryError:
            raise
        except Exception as error:
            raise Refused(BAD, f"{jpeg.place}: the JPEG cannot be decoded ({error})") from None
    return planes
