"""Converts a model's results for the images of a request to the tensors of the answer: README.md has
the table.
"""
from request import FEWER, TOO_LARGE, Refused

BEST = 5  # classes in a classifier's answer
MOST_ROWS = 200_000  # detections of an answer, padding included


def padded(rows, fill, width):
    """Joins rows of unequal length, padded to equal length, to one list."""
    return [item for row in rows for item in row + [fill] * (width - len(row))]


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def detections(results, names, ids):
    """Returns a detector's tensors. `results`: for each of N images (boxes [n][4], scores [n],
    labels [n]). D is the largest n: shorter rows are padded with zeros and empty names."""
    images, most = len(results), max(len(scores) for _, scores, _ in results)
    if images * most > MOST_ROWS:
        raise Refused(TOO_LARGE, f"answer: {images} images with up to {most} detections (the limit is "
                      f"{MOST_ROWS} in all); {FEWER}")
    labels = [row for _, _, row in results]
    boxes = padded([row for row, _, _ in results], [0.0] * 4, most)
    return [
        tensor("boxes", "FP32", [images, most, 4], [number for box in boxes for number in box]),
        tensor("scores", "FP32", [images, most], padded([row for _, row, _ in results], 0.0, most)),
        tensor("labels", "INT64", [images, most], padded(labels, 0, most)),
        tensor("category_ids", "INT64", [images, most],
               padded([[ids[label] for label in row] for row in labels], 0, most)),
        tensor("category_names", "BYTES", [images, most],
               padded([[names[label] for label in row] for row in labels], "", most)),
        tensor("counts", "INT64", [images], [len(row) for row in labels]),
    ]


def best_classes(results, names, ids):
    """Returns a classifier's tensors. `results`: for each image (probabilities [K],)."""
    # Equal scores are ordered by label, as in retina-eval.
    labels = [sorted(range(len(row)), key=lambda label: (-row[label], label))[:BEST]
              for row, in results]
    scores = [[row[label] for label in best] for (row,), best in zip(results, labels)]

    def output(name, datatype, rows):
        return tensor(name, datatype, [len(rows), len(rows[0])], [one for row in rows for one in row])

    return [
        output("scores", "FP32", scores),
        output("labels", "INT64", labels),
        output("category_ids", "INT64", [[ids[label] for label in row] for row in labels]),
        output("category_names", "BYTES", [[names[label] for label in row] for row in labels]),
    ]


ANSWERS = {"detector": detections, "classifier": best_classes}
NAMES = {"detector": ["boxes", "scores", "labels", "category_ids", "category_names", "counts"],
         "classifier": ["scores", "labels", "category_ids", "category_names"]}
