"""The runtime that MLServer loads for a detector of `retina-convert --repository`: JPEGs in, what is
seen on them out. Beside README.md, which says how to start it; model-settings.json holds the schema.
"""
import torch
from mlserver.types import ResponseOutput

from retina_service import RetinaService


def padded(rows, fill, width):
    """Rows of unequal length as one list of equal ones."""
    return [item for row in rows for item in row + [fill] * (width - len(row))]


class RetinaDetector(RetinaService):
    DETECTS = True

    @torch.inference_mode()
    def _result(self, height, width, planes):
        """(boxes [n][4], scores [n], labels [n]) of one picture, as lists."""
        with self._seconds.time():
            boxes, scores, labels, counts = self._model(self._pixels(height, width, planes))
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
