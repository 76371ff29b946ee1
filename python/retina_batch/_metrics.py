"""Reads the metrics of a training and of an evaluation, as columns."""
from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Union

import numpy
from numpy.typing import NDArray

from ._checks import data_error

Row = Dict[str, Any]
Columns = Dict[str, NDArray[Any]]

# Columns of int64, which select rows; all other numbers are float64.
_WHOLE = {"step", "epoch", "rank", "category_id"}
# COCO's 12 metrics, in the order of a validation's `stats`. AR100 has the number of detections of an
# image and class that count: on tiles AR10000.
_STATS = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large",
          "AR1", "AR10", "AR{count_best}", "AR_small", "AR_medium", "AR_large")
_RUN_HINT = "give a run folder of retina-train"


@dataclass(frozen=True, eq=False)
class RunMetrics:
    """`metrics.jsonl` of a run; each attribute is a table, a dictionary of numpy arrays.

        metrics = read_metrics("run")
        plt.plot(metrics.steps["step"], metrics.steps["loss"])
        plt.plot(metrics.validations["epoch"], metrics.validations["AP"])

    `step`, `epoch` and `rank` are int64, all other numbers float64, NaN where a value is missing or
    was not finite. A table without rows is an empty dictionary.
    train/monitor/metrics_log.h lists the columns.

    Attributes:
        steps: a row for each step: `step`, `epoch`, `loss`, `lr`, `images_per_second`, `step_ms`, ...
        validations: one for each validation: `step`, `epoch`, and COCO's 12 metrics `AP`, `AP50`,
            ..., `AR_large` (-1: no such objects; on tiles `AR10000` instead of `AR100`, and
            `count_best`), or of a classifier `top1`, `top5`; `loss` and parts.
        epochs: one for each epoch: `step`, `epoch`, `steps`, `epoch_seconds`, `images_per_epoch`.
        ranks: one for each rank and epoch: `epoch`, `rank`, `node`, `compute_ms`, `data_wait_ms`,
            `comm_wait_ms` (of the median step), their sums, ...
    """
    steps: Columns
    validations: Columns
    epochs: Columns
    ranks: Columns


@dataclass(frozen=True, eq=False)
class Evaluation:
    """`metrics.json` of retina-eval.

    Attributes:
        metrics: the numbers of the whole set by name: `AP`, `AP50`, `AR100` (`AR10000` where
            `count_best` is 10,000, as on tiles), ..., or `top1`, `loss`,
            ... of a classifier. -1 is COCO's "there is no such object".
        per_class: a table, a dictionary of numpy arrays with a row for each class: `name`,
            `category_id`, `AP`, `object_count`, ..., or `recall`, `precision`, ... of a classifier.
        content: the whole file: confusions, calibration, the worst images, ...
    """
    metrics: Dict[str, Any]
    per_class: Columns
    content: Dict[str, Any]


def read_metrics(run: Union[str, "os.PathLike[str]"]) -> RunMetrics:
    """Reads the metrics of a run folder of retina-train, also while it trains.

    An incomplete last line is skipped. Where a run was continued and a step occurs twice, the later
    one and the lines after it count, as if the file had been cut before the first one, as
    retina-train does. A warning reports a damaged line, and nothing after it is read; retina-train
    cuts the file there, too.

    Raises OSError, and DataError for a file that is not one of a run.
    """
    path = os.path.join(run, "metrics.jsonl")
    rows: List[Row] = []
    for row in _rows(path):
        if _is_step(row):  # a validation or an epoch's end follows the step of its number
            while rows and rows[-1]["step"] >= row["step"]:
                rows.pop()
        rows.append(row)
    try:
        return _tables(rows)
    except (AttributeError, KeyError, TypeError):
        raise data_error(path, "is not what retina-train writes", _RUN_HINT) from None


def read_evaluation(folder: Union[str, "os.PathLike[str]"]) -> Evaluation:
    """Reads the metrics in an output folder of retina-eval. Raises OSError, DataError."""
    path = os.path.join(folder, "metrics.json")
    with open(path, "rb") as file:
        text = file.read()
    try:
        content = json.loads(text)
        per_class = _columns(content["per_class"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise data_error(path, "is not what retina-eval writes",
                         "give an output folder of retina-eval") from None
    return Evaluation(metrics={key: value for key, value in content.items() if not _is_nested(value)},
                      per_class=per_class, content=content)


def _rows(path: str) -> Iterator[Row]:
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")[:-1]  # the rest after the last line break is incomplete
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            if number == 1:
                raise data_error(path, "line 1 is not JSON", _RUN_HINT) from None
            warnings.warn(f"{path}: line {number} is not JSON: what follows is left out", stacklevel=3)
            return
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise data_error(path, f"line {number} is not of a run's metrics", _RUN_HINT)
        yield row


def _is_step(row: Row) -> bool:
    return "loss" in row


def _tables(rows: List[Row]) -> RunMetrics:
    steps: List[Row] = []
    validations: List[Row] = []
    ranks: List[Row] = []
    epochs: Dict[int, Row] = {}
    for row in rows:
        if "validation" in row:
            values = row["validation"]
            names = [name.format(count_best=values.get("count_best", 100)) for name in _STATS]
            validations.append({**row, **values, **dict(zip(names, values.get("stats", [])))})
        elif "rank_times" in row:
            epochs[row["epoch"]] = row  # the last one of an epoch counts
        elif _is_step(row):
            steps.append(row)  # any other line marks a new length of the run
    for epoch in epochs.values():
        ranks += [{"epoch": epoch["epoch"], **times} for times in epoch["rank_times"]]
    return RunMetrics(_columns(steps), _columns(validations), _columns(list(epochs.values())),
                      _columns(ranks))


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, dict))


def _columns(rows: List[Row]) -> Columns:
    """Returns an array for each key that has no lists or objects."""
    nested = {key for row in rows for key, value in row.items() if _is_nested(value)}
    keys = dict.fromkeys(key for row in rows for key in row if key not in nested)
    return {key: _column(key, [row.get(key) for row in rows]) for key in keys}


def _column(key: str, values: List[Any]) -> NDArray[Any]:
    if key in _WHOLE:
        return numpy.array(values, dtype=numpy.int64)
    if any(isinstance(value, str) for value in values):
        return numpy.array(values)
    # 0.0 is written as 0: a column's type must not depend on that.
    return numpy.array([numpy.nan if value is None else value for value in values], dtype=numpy.float64)
