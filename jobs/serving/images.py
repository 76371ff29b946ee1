"""From a request's elements to pixels, within limits: what model_program.py does before the model's
turn. What a JPEG declares is checked before it is paid for: the headers of all before the first one is
decoded. Knows nothing of the server and of ONNX.
"""
import base64
import binascii
import io
import typing

from PIL import Image, UnidentifiedImageError

from request import BAD, FEWER, INPUT, TOO_LARGE, Refused
from tiles import tile_count

OTHER_IMAGES = {b"\x89PNG": "PNG", b"RIFF": "WebP", b"GIF8": "GIF", b"BM": "BMP",
                b"II*\0": "TIFF", b"MM\0*": "TIFF"}
Image.MAX_IMAGE_PIXELS = None  # Limits takes its place


class Jpeg(typing.NamedTuple):
    place: str  # image[3], for errors
    data: bytes
    width: int
    height: int

    @property
    def pixels(self):
        return self.width * self.height


def jpegs_of(elements, limits, size=None, tiling=None):
    """The JPEGs of a request in order, all checked, none decoded. `size`: (height, width) of a model
    that takes no other."""
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
    """One element: a JPEG, or one as base64."""
    if data[:2] != b"\xff\xd8":
        try:
            data = base64.b64decode(data.translate(None, b"\r\n\t "), validate=True)
        except binascii.Error as error:
            raise Refused(BAD, f"{place}: neither JPEG bytes nor base64 ({error})") from None
    with opened(place, data) as image:
        width, height = image.size
    if width * height > limits.max_image_pixels:
        raise Refused(TOO_LARGE, f"{place}: {width}x{height} pixels (the limit is "
                      f"{limits.max_image_pixels} in all)")
    if size not in (None, (height, width)):
        raise Refused(BAD, f"{place}: {width}x{height} pixels (this model takes {size[1]}x{size[0]} "
                      "only)")
    return Jpeg(place, data, width, height)


def opened(place, data):
    """Pillow's image, of which only the header has been read."""
    try:
        return Image.open(io.BytesIO(data), formats=("JPEG",))
    except UnidentifiedImageError:
        kind = next((name for start, name in OTHER_IMAGES.items() if data.startswith(start)), "")
        raise Refused(BAD, f"{place}: {kind and f'a {kind}, '}not a JPEG ({len(data)} bytes)") from None
    except Exception as error:  # damaged files make Pillow raise almost anything
        raise Refused(BAD, f"{place}: the JPEG cannot be decoded ({error})") from None


def decoded(jpeg):
    """uint8 [3, height, width] RGB, as retina-eval decodes: grey and CMYK become RGB, no EXIF
    rotation."""
    size = jpeg.pixels
    with opened(jpeg.place, jpeg.data) as image:
        try:
            rgb = image if image.mode == "RGB" else image.convert("RGB")
            # Plane by plane: a Pillow image has four bytes a pixel, interleaved.
            planes = bytearray(3 * size)
            for band in range(3):
                planes[band * size:(band + 1) * size] = rgb.getchannel(band).tobytes()
        except MemoryError:
            raise
        except Exception as error:
            raise Refused(BAD, f"{jpeg.place}: the JPEG cannot be decoded ({error})") from None
    return planes
