"""Reads the results of retina-batch's programs in Python, for notebooks.

Shards            a data set that coco-pack packed, as a sequence of Record
read_metrics      the curves of a run of retina-train, as RunMetrics
read_evaluation   the numbers of a retina-eval, as Evaluation
detect            a model of retina-convert on images, to Detections

A file with wrong content raises DataError with one line that says what was found and wanted.
Needs numpy; xxhash (checksums), pillow (pixels of JPEGs) and onnxruntime (`detect`) where they are
used.
"""
from importlib import import_module
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ._checks import DataError
    from ._detect import Detections, detect
    from ._metrics import Evaluation, RunMetrics, read_evaluation, read_metrics
    from ._record import Record
    from ._shards import Shards

__version__ = "0.1.0"  # the programs' version

__all__ = ["DataError", "Detections", "Evaluation", "Record", "RunMetrics", "Shards", "__version__",
           "detect", "read_evaluation", "read_metrics"]

_MODULES = {"DataError": "_checks", "Detections": "_detect", "detect": "_detect", "Evaluation": "_metrics",
            "RunMetrics": "_metrics", "read_evaluation": "_metrics", "read_metrics": "_metrics",
            "Record": "_record", "Shards": "_shards"}


# The wheel's programs start through this package, and need no numpy.
def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> List[str]:
    return __all__
