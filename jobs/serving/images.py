"""Decodes a request's elements to pixels, within limits, for model_program.py. The sizes that JPEGs
declare are checked before they cost anything: all headers before the first image is decoded. This
module does not depend on the server or on ONNX.
"""
import base64
import binascii
import ctypes
import math
import typing

from library import BAD_DATA, call
from request import BAD, FAILED, FEWER, INPUT, TOO_LARGE, Refused
from tiles import tile_count


class Jpeg(typing.NamedTuple):
    place: str  # image[3], for errors
    data: bytes
    width: int
    height: int

    @property
    def pixels(self):
        return self.width * self.height


def jpegs_of(elements, limits, size=None, tiling=None):
    """Returns the JPEGs of a request in order, all checked, none decoded. `size`: (height, width) of a
    model that takes no other. Raises Refused."""
    if tiling and size:
        raise Refused(BAD, f"tile: this model takes {size[1]}x{size[0]} only; hint: leave it out, or "
                      "convert without --onnx-static")
    jpegs = [jpeg_of(f"{INPUT}[{number}]", element, limits, size)
             for number, element in enumerate(elements)]
    pixels = sum(jpeg.pixels for jpeg in jpegs)
    if pixels > limits.max_request_pixels:
        raise Refused(TOO_LARGE, f"{INPUT}: {pixels} pixels in all (the limit is "
                      f"{limits.max_request_pixels}); {FEWER}")
    tiles = sum(tile_count(jpeg.width, jpeg.height, tiling) for jpeg in jpegs) if tiling else 0
    if tiles > limits.max_tiles:
        raise Refused(TOO_LARGE, f"tile: {tiles} tiles of {tiling[0]} px in all (the limit is "
                      f"{limits.max_tiles}); hint: a larger tile, less overlap, or fewer images at a "
                      "time")
    return jpegs


def jpeg_of(place, data, limits, size):
    """Checks one element: a JPEG, or one as base64."""
    if data[:2] != b"\xff\xd8":
        try:
            data = base64.b64decode(data.translate(None, b"\r\n\t "), validate=True)
        except binascii.Error as error:
            raise Refused(BAD, f"{place}: neither JPEG bytes nor base64 ({error})") from None
    size_px = (ctypes.c_int * 2)()
    ask(place, "retina_jpeg_size", data, size_px)
    width, height = size_px
    if width * height > limits.max_image_pixels:
        raise Refused(TOO_LARGE, f"{place}: {width}x{height} pixels (the limit is "
                      f"{limits.max_image_pixels} in all)")
    if size not in (None, (height, width)):
        raise Refused(BAD, f"{place}: {width}x{height} pixels (this model takes {size[1]}x{size[0]} "
                      "only)")
    return Jpeg(place, data, width, height)


def ask(place, name, data, *arguments):
    """Calls the programs' decoder. Raises Refused."""
    code, problem = call(name, data, *arguments)
    if code:
        raise Refused(BAD if code == BAD_DATA else FAILED, f"{place}: {problem}")


def decoded(jpeg, max_seconds=math.inf):
    """Returns uint8 [3, height, width] RGB, by retina-eval's decoder: grey and CMYK become RGB, no EXIF
    rotation."""
    planes = bytearray(3 * jpeg.pixels)
    ask(jpeg.place, "retina_jpeg_decode", jpeg.data, ctypes.c_double(max_seconds),
        ctypes.byref(ctypes.c_ubyte.from_buffer(planes)), ctypes.c_size_t(len(planes)))
    return planes
