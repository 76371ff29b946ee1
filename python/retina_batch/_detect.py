"""Runs a model that retina-convert wrote, by ONNX Runtime."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Iterable, List, Tuple, Union

import numpy
from numpy.typing import NDArray

from ._checks import data_error, optional_package
from ._record import decoded

Image = Union[str, "os.PathLike[str]", NDArray[numpy.uint8]]
_OUTPUTS = ["boxes", "scores", "labels", "counts"]
_LEAST_RUNTIME = (1, 20)


@dataclass(frozen=True, eq=False)
class Detections:
    """A model's detections on an image, the best first.

    Attributes:
        corners: float32 [D, 4], x1, y1, x2, y2 in pixels of the image, as the model returns them.
        scores: float32 [D], 0 to 1.
        labels: int64 [D], places in `classes`.
        classes: the names of the model's classes.
    """
    corners: NDArray[numpy.float32]
    scores: NDArray[numpy.float32]
    labels: NDArray[numpy.int64]
    classes: Tuple[str, ...]

    @property
    def boxes(self) -> NDArray[numpy.float32]:
        """float32 [D, 4]: x, y, width, height, like `Record.boxes`."""
        return numpy.hstack([self.corners[:, :2], self.corners[:, 2:] - self.corners[:, :2]])


def detect(model: Union[str, "os.PathLike[str]"], images: Iterable[Image]) -> List[Detections]:
    """Runs a detector that retina-convert wrote on images, one after another, on the CPU.

    model: the .onnx file. A model is a program: open only what you trust.
    images: paths, or pixels: uint8 [H, W, 3], RGB; of any size, as long as the model was not
        converted with `--onnx-static`.

    Needs the package onnxruntime from 1.20, and pillow for paths (ImportError). Raises DataError for a file
    that is not such a model (a classifier's, one with `--no-postprocess`), ValueError for pixels of
    another shape or type or no list, OSError.
    """
    if isinstance(images, (str, bytes, os.PathLike)):
        raise ValueError(f"images: got {images!r} alone, want a list; hint: give [{images!r}]")
    session = _session(os.fspath(model))
    names = session.get_modelmeta().custom_metadata_map["names"]
    classes = tuple(names.split("\n")[:-1])  # each name ends its line
    found = []
    for image in images:
        pixels = image if isinstance(image, numpy.ndarray) else decoded(image, "retina_batch.detect")
        if pixels.dtype != numpy.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(f"image: got {pixels.dtype} {list(pixels.shape)}, want uint8 [H, W, 3]; hint: "
                             "give a list of images")
        corners, scores, labels, counts = session.run(_OUTPUTS, {"images": pixels.transpose(2, 0, 1)[None]})
        kept = slice(int(counts[0]))
        found.append(Detections(corners[0, kept], scores[0, kept], labels[0, kept], classes))
    return found


def _session(path: str) -> Any:
    runtime = optional_package("onnxruntime", "onnxruntime", "retina_batch.detect")
    if tuple(int(part) for part in runtime.__version__.split(".")[:2]) < _LEAST_RUNTIME:
        least = ".".join(map(str, _LEAST_RUNTIME))
        raise ImportError(f"retina_batch.detect: the package onnxruntime is too old (got "
                          f"{runtime.__version__}, want {least} or later); hint: pip install "
                          f"'onnxruntime>={least}'")
    with open(path, "rb") as file:
        content = file.read()
    hint = "give a detector that retina-convert wrote"
    try:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's own types are not public
        raise data_error(path, f"ONNX Runtime cannot open it ({error})", hint) from None
    outputs = [output.name for output in session.get_outputs()]
    if outputs != _OUTPUTS or "names" not in session.get_modelmeta().custom_metadata_map:
        raise data_error(path, f"is not a detector of ours (got outputs {', '.join(outputs)}, want "
                               f"{', '.join(_OUTPUTS)} and names)", hint)
    return session
