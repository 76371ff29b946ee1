"""The runtime that MLServer loads for a classifier of `retina-convert --repository`: JPEGs in, their
best classes out. Beside README.md, which says how to start it; model-settings.json holds the schema.
"""
import torch
from mlserver.types import ResponseOutput

from retina_service import RetinaService

BEST = 5  # classes in an answer


class RetinaClassifier(RetinaService):
    DETECTS = False

    @torch.inference_mode()
    def _result(self, height, width, planes):
        """(scores [k], labels [k]) of one picture, best first, as lists."""
        with self._seconds.time():
            scores = self._model(self._pixels(height, width, planes))[0]
            # Of equal scores the lower label first, as retina-eval has it.
            best, labels = scores.sort(descending=True, stable=True)
            return best[:BEST].tolist(), labels[:BEST].tolist()

    def _tensors(self, results):
        """N pictures, k classes each."""
        names, ids = self._model.category_names, self._model.category_ids

        def output(name, datatype, rows):
            return ResponseOutput(name=name, datatype=datatype, shape=[len(rows), len(rows[0])],
                                  data=[item for row in rows for item in row])

        labels = [row for _, row in results]
        return [
            output("scores", "FP32", [row for row, _ in results]),
            output("labels", "INT64", labels),
            output("category_ids", "INT64", [[ids[label] for label in row] for row in labels]),
            output("category_names", "BYTES", [[names[label] for label in row] for row in labels]),
        ]
