"""The runtime that MLServer loads for a model of `retina-convert --repository`: JPEGs in, what is seen
on them out. Beside README.md, which says how to start it; model-settings.json holds the schema.
"""
import asyncio
import base64
import binascii
import io
import os
import threading

import numpy
import torch
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.types import Datatype, InferenceRequest, InferenceResponse, ResponseOutput
from mlserver.utils import get_model_uri
from PIL import Image, UnidentifiedImageError

import checked_model

INPUT = "image"
# The largest picture that coco-pack and retina-eval take, too.
MAX_PIXELS = 178_956_970


class BadRequest(MLServerError):
    """The client's mistake: HTTP status 400 with one line."""

    def __init__(self, problem):
        super().__init__(" ".join(str(problem).split()), 400)


def jpeg_bytes(place, value):
    """One element of the BYTES tensor: raw (gRPC), or base64 (JSON can hold no bytes)."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    elif not isinstance(value, bytes):
        raise BadRequest(f"{place}: {type(value).__name__} (want a JPEG as base64)")
    if value[:2] == b"\xff\xd8":
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise BadRequest(f"{place}: neither JPEG bytes nor base64 ({error})") from None


def decode_jpeg(place, data):
    """uint8 [3, H, W] RGB, as retina-eval decodes: grey and CMYK become RGB, no EXIF rotation."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise BadRequest(f"{place}: picture of {picture.width}x{picture.height} pixels (the "
                                 f"limit is {MAX_PIXELS} in all)")
            pixels = numpy.array(picture.convert("RGB"))
    except (BadRequest, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BadRequest(f"{place}: not a JPEG ({len(data)} bytes)") from None
    except Exception as error:  # damaged files make Pillow raise almost anything
        raise BadRequest(f"{place}: the JPEG cannot be decoded ({error})") from None
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def flat(data):
    """The elements of a tensor's data, which clients may nest."""
    for item in data:
        if isinstance(item, (list, tuple)):
            yield from flat(item)
        else:
            yield item


def pictures_of(request: InferenceRequest):
    """The decoded JPEGs of the request, in order."""
    if [tensor.name for tensor in request.inputs] != [INPUT]:
        names = ", ".join(tensor.name for tensor in request.inputs) or "none"
        raise BadRequest(f"inputs: want one tensor, {INPUT} (got {names})")
    tensor = request.inputs[0]
    datatype = Datatype(tensor.datatype)
    if datatype != Datatype.BYTES:
        raise BadRequest(f"{INPUT}: datatype {datatype.value} (want BYTES)")
    data = tensor.data.root
    files = list(flat(data if isinstance(data, (list, tuple)) else [data]))
    count = int(numpy.prod(tensor.shape, dtype=object))
    if not files or count != len(files):
        raise BadRequest(f"{INPUT}: {len(files)} elements in a tensor of shape {tensor.shape} (want "
                         "one or more, as many as the shape says)")
    return [decode_jpeg(f"{INPUT}[{i}]", jpeg_bytes(f"{INPUT}[{i}]", file))
            for i, file in enumerate(files)]


def padded(rows, fill, width):
    """Rows of unequal length as one list of equal ones."""
    return [item for row in rows for item in row + [fill] * (width - len(row))]


class RetinaDetector(MLModel):
    async def load(self) -> bool:
        path = await get_model_uri(self.settings, wellknown_filenames=["1/model.pt", "model.pt"])
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        # Not a key of model-settings.json, which comes from where the model does.
        trusted = os.environ.get("RETINA_TRUST_MODELS") == "1"
        self._model = checked_model.load(path, self._device, trusted)
        # One picture at a time has the device; others are decoded meanwhile.
        self._turn = threading.Lock()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        # In a thread: the server goes on answering, health checks above all.
        outputs = await asyncio.to_thread(self._outputs, payload)
        return InferenceResponse(id=payload.id, model_name=self.name, model_version=self.version,
                                 outputs=outputs)

    def _outputs(self, request):
        # Pictures of unequal sizes cannot share a batch, and of a batch of equal ones each would
        # wait for all.
        results = [self._detect(pixels) for pixels in pictures_of(request)]
        outputs = self._tensors(results)
        if not request.outputs:
            return outputs
        by_name = {output.name: output for output in outputs}
        for wanted in request.outputs:
            if wanted.name not in by_name:
                raise BadRequest(f"outputs: no {wanted.name} (there are {', '.join(by_name)})")
        return [by_name[wanted.name] for wanted in request.outputs]

    @torch.inference_mode()
    def _detect(self, pixels):
        """(boxes [n][4], scores [n], labels [n]) of one picture, as lists."""
        with self._turn:
            boxes, scores, labels, counts = self._model(pixels[None].to(self._device))
            count = int(counts[0])
            return tuple(tensor[0, :count].tolist() for tensor in (boxes, scores, labels))

    def _tensors(self, results):
        """N pictures, D the most detections on one: rows are padded with zeros and empty names."""
        pictures, most = len(results), max(len(scores) for _, scores, _ in results)
        names, ids = self._model.category_names, self._model.category_ids

        def output(name, datatype, rows, fill=0, tail=()):
            data = padded(rows, fill, most)
            if tail:
                data = [number for box in data for number in box]
            return ResponseOutput(name=name, datatype=datatype, shape=[pictures, most, *tail],
                                  data=data)

        labels = [row for _, _, row in results]
        return [
            output("boxes", "FP32", [row for row, _, _ in results], [0.0] * 4, (4,)),
            output("scores", "FP32", [row for _, row, _ in results], 0.0),
            output("labels", "INT64", labels),
            output("category_ids", "INT64", [[ids[label] for label in row] for row in labels]),
            output("category_names", "BYTES", [[names[label] for label in row] for row in labels],
                   ""),
            ResponseOutput(name="counts", datatype="INT64", shape=[pictures],
                           data=[len(row) for row in labels]),
        ]
