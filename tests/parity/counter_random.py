"""The test inputs' random numbers: Philox4x32-10 as in shared/numeric/random.h, so that the C++ tests
make the same tensors without a file."""

import numpy as np

SEED = 20261121
USE_TEST = 5  # RandomUse::kTest


def bits(stream, count, seed=SEED):
    """`count` uint64: RandomStream{seed, kTest, stream}.bits(0 .. count - 1)."""
    low32 = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    index = np.arange(count, dtype=np.uint64)
    c0, c1 = index & low32, index >> shift
    c2, c3 = np.full_like(index, stream), np.full_like(index, USE_TEST)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & low32, \
            (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & low32
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0 | (c1 << shift)


def units(stream, count, seed=SEED):
    """`count` f64 in [0, 1), 53 bits: RandomStream{seed, kTest, stream}.unit(0 .. count - 1)."""
    return (bits(stream, count, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform(stream, shape, low, high):
    """An f64 array of `shape`, low + (high - low) * unit, in row-major order."""
    return low + (high - low) * units(stream, int(np.prod(shape))).reshape(shape)
