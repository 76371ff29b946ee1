"""What the programs of retina-batch made, in Python: read-only, for notebooks.

Shards            a data set that coco-pack packed, as a sequence of Record
read_metrics      the curves of a run of retina-train, as RunMetrics
read_evaluation   the numbers of a retina-eval, as Evaluation
detect            a model of retina-convert on images, to Detections

A file whose content is wrong raises DataError with one line that says what was found and wanted.
Needs numpy; xxhash (checksums), pillow (pixels of JPEGs) and onnxruntime (`detect`) where they are
used.
"""
from ._checks import DataError
from ._detect import Detections, detect
from ._metrics import Evaluation, RunMetrics, read_evaluation, read_metrics
from ._record import Record
from ._shards import Shards

__version__ = "0.1.0"  # that of the programs

__all__ = ["DataError", "Detections", "Evaluation", "Record", "RunMetrics", "Shards", "__version__",
           "detect", "read_evaluation", "read_metrics"]
