"""What data.py compares with, one measurement a call: peers.py NAME FOLDER THREADS SIDE. Prints images
per second over all photographs of FOLDER: decoded, resized to SIDE x SIDE, mirrored (every second one),
normalised, in batches of 16 f32. NAME: torch (DataLoader, torchvision's decoder and resize; THREADS
worker processes), opencv (resize and normalise of decoded images, one thread) or dali (CPU)."""

import sys
import time
from pathlib import Path

BATCH = 16
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def files(folder):
    return sorted(str(path) for path in Path(folder).glob("*.jpg"))


def run_torch(folder, threads, side):
    import torch
    from torch.utils.data import DataLoader, Dataset
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import functional

    class Photographs(Dataset):
        def __init__(self):
            self.files = files(folder)

        def __len__(self):
            return len(self.files)

        def __getitem__(self, place):
            image = decode_jpeg(read_file(self.files[place]), ImageReadMode.RGB)
            image = functional.resize(image, [side, side], antialias=False)
            if place % 2:
                image = functional.hflip(image)
            return functional.normalize(image.float().div_(255), MEAN, STD, inplace=True)

    torch.set_num_threads(1)
    loader = DataLoader(Photographs(), BATCH, num_workers=threads, persistent_workers=threads > 0)
    # The workers' start is no part of it: that is an epoch before.
    if threads:
        for _ in loader:
            pass
    begin = time.perf_counter()
    count = sum(len(batch) for batch in loader)
    return count / (time.perf_counter() - begin)


def run_opencv(folder, threads, side):
    import cv2
    import numpy
    cv2.setNumThreads(threads)
    begin = time.perf_counter()
    mean, scale = 255 * numpy.float32(MEAN), 1 / (255 * numpy.float32(STD))
    names = files(folder)
    for place, name in enumerate(names):
        image = cv2.resize(cv2.imread(name), (side, side), interpolation=cv2.INTER_LINEAR)
        if place % 2:
            image = cv2.flip(image, 1)
        cv2.dnn.blobFromImage(image, 1.0, swapRB=True).reshape(3, side, side)
        numpy.multiply(image - mean, scale)
    return len(names) / (time.perf_counter() - begin)


def run_dali(folder, threads, side):
    from nvidia.dali import fn, pipeline_def, types

    names = files(folder)

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
    def pipeline():
        encoded, _ = fn.readers.file(files=names, name="photographs")
        image = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
        image = fn.resize(image, resize_x=side, resize_y=side, antialias=False,
                          interp_type=types.INTERP_LINEAR)
        return fn.crop_mirror_normalize(image, dtype=types.FLOAT, output_layout="CHW",
                                        mirror=fn.random.coin_flip(),
                                        mean=[255 * m for m in MEAN], std=[255 * s for s in STD])

    pipe = pipeline()
    pipe.build()
    pipe.run()  # starts the threads
    batches = len(names) // BATCH
    begin = time.perf_counter()
    for _ in range(batches):
        pipe.run()
    return batches * BATCH / (time.perf_counter() - begin)


if __name__ == "__main__":
    run = {"torch": run_torch, "opencv": run_opencv, "dali": run_dali}[sys.argv[1]]
    print(run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
