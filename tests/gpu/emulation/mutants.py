"""Does the emulation see a wrong kernel? Builds emulation_test with one mutant of a kernel after the other.

    mutants.py --check          every mutant still applies to its source
    mutants.py BUILD [NAME...]  tries all, or those named, with the build folder's emulation_test; prints what
                                found each, and exits with 1 if one was not found

A mutant is found when GCC warns of a variable that may be read unwritten, which the emulation does not look at, or when
the tests of its kernel fail, or take longer than two minutes. Not listed is what changes
no result, so that no test can find it: an image without partial boxes, which claim and hold nothing; low_quality_matches() for anchors that have a box already, which is their
own best; a window of cells beside the box's centre, which grows until it has the nearest; a bit of a box's own in
its row of the mask, where nothing reads it any more; `dropped` in the last box's row, which is 0.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import rewrite_cuda

ROOT = Path(__file__).resolve().parents[3]
OPS = ROOT / "shared/ops"
TIMEOUT_S = 120
# In the place of -w.
WARNINGS = ["-Werror=uninitialized", "-Werror=maybe-uninitialized"]
# The tests of a kernel.
SUITES = {"atss": "EmulatedAtss", "batch_norm": "EmulatedBatchNorm", "bias_relu": "EmulatedBiasRelu", "dropout": "EmulatedDropout",
          "group_norm": "EmulatedGroupNorm", "head_losses": "EmulatedHeadLosses", "matcher": "EmulatedMatcher",
          "nms": "EmulatedNms", "partial_boxes": "EmulatedPartialBoxes", "prepare_images": "EmulatedPrepareImages"}


class Mutant(NamedTuple):
    kernel: str  # of SUITES: shared/ops/KERNEL_cuda.cu
    name: str
    old: str     # is there once
    new: str
    source: str = ""  # instead of the kernel's own, a header of it

    def path(self):
        return OPS / (self.source or f"{self.kernel}_cuda.cu")

    def text(self):
        text = self.path().read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.path().name} has its text {text.count(self.old)} times")
        return text.replace(self.old, self.new)


MATCHER = [Mutant("matcher", *fields) for fields in [
    ("load_tile without its first barrier", "T (*tile)[4]) {\n  __syncthreads();", "T (*tile)[4]) {"),
    ("load_tile without its second barrier", "  __syncthreads();\n  return count;", "  return count;"),
    ("half a tile", "best_matches(Match<T> m) {\n  __shared__ T tile[kTile][4];",
     "best_matches(Match<T> m) {\n  __shared__ T tile[kTile / 2][4];"),
    ("threads past the end leave early", "const bool real = p.match != nullptr;\n",
     "const bool real = p.match != nullptr;\n  if (!real) return;\n"),
    ("one anchor too many", "place.a >= m.anchor_count", "place.a > m.anchor_count"),
    ("the tile's last coordinate is missing", "i < 4 * count;", "i < 4 * count - 1;"),
    ("half a warp's maximum", "distance = 16", "distance = 8"),
    ("matches counted in 32 bits", "m.matches + blockIdx.y * m.anchor_count + place.a",
     "m.matches + static_cast<int>(blockIdx.y * m.anchor_count + place.a)"),
    ("an IoU of 0 ties", "value > T(0) && value == ", "value == "),
    ("a box's number in its tile", "place = first + g;\n      }\n      const T of_warp",
     "place = g;\n      }\n      const T of_warp"),
    ("the best of another tile's box", "atomic_larger(m.best_of_box + first + g", "atomic_larger(m.best_of_box + g"),
    ("boxes of the images before, too", "m.offsets[blockIdx.y], m", "m.offsets[0], m"),
    ("a block too few", "blocks_for(m.anchor_count, kThreads)",
     "static_cast<unsigned>(m.anchor_count / kThreads)"),
    ("the last of tied boxes", "if (value > best) {\n        best = value;\n        place = first + g;\n      }\n      const",
     "if (value >= best) {\n        best = value;\n        place = first + g;\n      }\n      const"),
]]
# Of a header that several kernels have.
MATCHER += [Mutant(kernel, *fields, "launch_cuda.cuh") for kernel in ("matcher", "atss") for fields in [
    ("f32 maximum without atomics", "atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(value));",
     "if (*target < value) *target = value;"),
    ("f64 maximum without atomics",
     "atomicMax(reinterpret_cast<unsigned long long*>(target),\n"
     "            static_cast<unsigned long long>(__double_as_longlong(value)));",
     "if (*target < value) *target = value;"),
]]
ATSS = [Mutant("atss", *fields) for fields in [
    ("sum_of_block without its first barrier", "lanes[threadIdx.x] = value;\n  __syncthreads();",
     "lanes[threadIdx.x] = value;"),
    ("sum_of_block without the loop's barrier", "lanes[threadIdx.x + half];\n    __syncthreads();",
     "lanes[threadIdx.x + half];"),
    ("sum_of_block without its last barrier", "const double sum = lanes[0];\n  __syncthreads();",
     "const double sum = lanes[0];"),
    ("half a block's sum", "half > 0; half /= 2", "half > 1; half /= 2"),
    ("a sum from nothing", "double sum = 0, squares = 0;", "double sum, squares = 0;"),
    ("cells without their barrier", "cells + threadIdx.x * kAtssCells);\n  }\n  __syncthreads();",
     "cells + threadIdx.x * kAtssCells);\n  }"),
    ("a level too few", "if (threadIdx.x < a.level_count)", "if (threadIdx.x + 1 < a.level_count)"),
    ("candidates that are none", "if (anchor < 0) continue;", ""),
    ("candidates of a part of the block", "place += kThreads", "place += 2 * kThreads"),
    ("the first image's anchors", "while (box >= a.offsets[image + 1]) ++image;", ""),
    ("empty images have boxes", "while (box >= a.offsets[image + 1])", "while (box > a.offsets[image + 1])"),
    ("matches counted in 32 bits", "body(image * a.anchor_count + anchor, iou)",
     "body(static_cast<int>(image * a.anchor_count + anchor), iou)"),
    ("the threshold itself is below", "static_cast<double>(iou) >= threshold &&",
     "static_cast<double>(iou) > 1.02 * threshold &&"),
    ("anchors centred outside", " && is_centred_inside(a, anchor, corners)", ""),
    ("the mean of all places", "sum_of_block(sum) / static_cast<double>(count)",
     "sum_of_block(sum) / static_cast<double>(candidate_places(a))"),
    ("a claim without the best IoU", "if (iou != a.best[place]) return;", ""),
    ("a claim without atomics",
     "atomicMin(reinterpret_cast<unsigned long long*>(a.matches + place),\n"
     "                            static_cast<unsigned long long>(box));",
     "if (a.matches[place] < 0 || a.matches[place] > box) a.matches[place] = box;"),
    ("the last of tied boxes",
     "atomicMin(reinterpret_cast<unsigned long long*>(a.matches + place),\n"
     "                            static_cast<unsigned long long>(box));",
     "atomicMax(reinterpret_cast<long long*>(a.matches + place),\n"
     "                            static_cast<long long>(box));"),
    ("every thread writes the threshold", "if (threadIdx.x == 0) a.thresholds", "a.thresholds"),
    ("thresholds of another box", "kAtssCells, a.thresholds[box]", "kAtssCells, a.thresholds[box / 2]"),
]] + [Mutant("atss", *fields, "atss_formulas.h") for fields in [
    ("the last of tied cells", "place > 0 && distance < distances[place - 1]",
     "place > 0 && distance <= distances[place - 1]"),
    ("a window that never grows", "if (!is_whole) continue;", ""),
    ("a window that ends on ties", "is_full && distance > farthest", "is_full && distance >= farthest"),
    ("a row too few", "row < rows.end", "row + 1 < rows.end"),
    ("the standard deviation of a population", "static_cast<double>(count - 1)", "static_cast<double>(count)"),
]]
PARTIAL_BOXES = [Mutant("partial_boxes", *fields) for fields in [
    ("one anchor too many", "anchor < p.anchor_count", "anchor <= p.anchor_count"),
    ("one anchor too few", "anchor < p.anchor_count", "anchor + 1 < p.anchor_count"),
    ("a block too few", "blocks_for(p.anchor_count, kThreads)", "static_cast<unsigned>(p.anchor_count / kThreads)"),
    ("half of the threads", "<<<grid, kThreads, 0", "<<<grid, kThreads / 2, 0"),
    ("an anchor of the first block", "static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x", "threadIdx.x"),
    ("images with one box", "p.offsets[image] == p.offsets[image + 1]", "p.offsets[image] + 1 >= p.offsets[image + 1]"),
    ("the first image alone", "const std::int64_t image = blockIdx.y;", "const std::int64_t image = 0;"),
]] + [Mutant("partial_boxes", *fields, "partial_boxes_formulas.h") for fields in [
    ("matches counted in 32 bits", "const std::int64_t place = image * p.anchor_count + anchor;",
     "const int place = image * p.anchor_count + anchor;"),
    ("anchors of real boxes", "!= kBackground) return;", "== kIgnored) return;"),
    ("no claims", "p.claims[place] != kBackground", "false"),
    ("claims of the first image", "p.claims[place]", "p.claims[anchor]"),
    ("claims that are ignored anchors", "p.claims[place] != kBackground", "p.claims[place] >= 0"),
    ("boxes of the images before, too", "g = p.offsets[image];", "g = p.offsets[0];"),
    ("a box too few", "g < p.offsets[image + 1]", "g + 1 < p.offsets[image + 1]"),
    ("a box too many", "g < p.offsets[image + 1]", "g <= p.offsets[image + 1]"),
    ("the first box alone", "p.boxes + 4 * g", "p.boxes + 4 * p.offsets[image]"),
    ("the first anchor", "p.anchors + 4 * anchor", "p.anchors"),
    ("the last box decides", "!is_ignored && g <", "g <"),
    ("more than the half", "width * height >= ", "width * height > "),
    ("a third", "kPartialShare = 0.5", "kPartialShare = 1.0 / 3"),
    ("of the box", "box_area(anchor)", "box_area(box)"),
    ("boxes beside it in both directions", "width > T(0) && height > T(0) &&\n         ", ""),
    ("ignored anchors are background", "p.matches[place] = kIgnored;", "p.matches[place] = kBackground;"),
]]
NMS = [Mutant("nms", *fields) for fields in [
    ("scan_mask without its first barrier", "dropped[w] = 0;\n  __syncthreads();", "dropped[w] = 0;"),
    ("scan_mask without its middle barrier", "& 1) == 0;\n    __syncthreads();", "& 1) == 0;"),
    ("scan_mask without its last barrier", "      }\n    }\n    __syncthreads();", "      }\n    }"),
    ("dropped boxes from nothing",
     "for (std::int64_t w = threadIdx.x; w < words; w += kScanThreads) dropped[w] = 0;", ""),
    ("a row too many", "if (i >= n.count) return;", "if (i > n.count) return;"),
    ("a box too many", "j >= n.count", "j > n.count"),
    ("mask words left unwritten", "  n.mask[(image * (n.count + 1) + i) * words + column] = bits;",
     "  if (column > row) n.mask[(image * (n.count + 1) + i) * words + column] = bits;"),
    ("bits from nothing", "std::uint64_t bits = 0;", "std::uint64_t bits;"),
    ("a bit of 32", "std::uint64_t{1} << b", "static_cast<std::uint64_t>(1U << b % 32)"),
    ("mask counted in 32 bits", "n.mask[(image * (n.count + 1) + i) * words + column]",
     "n.mask[static_cast<int>((image * (n.count + 1) + i) * words + column)]"),
    ("a word too few", "(count + kBlock - 1) / kBlock", "count / kBlock"),
    ("class 0 has no boxes", "n.labels[image * n.count + i] >= 0", "n.labels[image * n.count + i] > 0"),
    ("every thread writes keep", "if (threadIdx.x == 0) n.keep", "n.keep"),
    ("labels do not matter", "labels[i] != labels[j]", "labels[i] != labels[i]"),
    ("an f32 threshold", "static_cast<double>(iou) > n.iou_threshold", "iou > static_cast<T>(n.iou_threshold)"),
]]
HEAD_LOSSES = [Mutant("head_losses", *fields) for fields in [
    ("block_sum without its first barrier", "sums[threadIdx.x] = value;\n  __syncthreads();", "sums[threadIdx.x] = value;"),
    ("block_sum without the loop's barrier", "sums[threadIdx.x + half];\n    __syncthreads();", "sums[threadIdx.x + half];"),
    ("half a block's sum", "half > 0; half /= 2", "half > 1; half /= 2"),
    ("every thread writes the focal partial",
     "sum = block_sum(sum);\n  if (threadIdx.x == 0) head.partials[image * gridDim.x + blockIdx.x] = sum;\n}\n\n// Grid (kPartials, N), a",
     "sum = block_sum(sum);\n  head.partials[image * gridDim.x + blockIdx.x] = sum;\n}\n\n// Grid (kPartials, N), a"),
    ("every thread writes the sum", "if (threadIdx.x == 0) sums[blockIdx.x]", "sums[blockIdx.x]"),
    ("a share without its last logit", "total * (blockIdx.x + 1) / gridDim.x;", "total * (blockIdx.x + 1) / gridDim.x - 1;"),
    ("shares counted in 32 bits", "total * blockIdx.x / gridDim.x",
     "static_cast<int>(total) * static_cast<int>(blockIdx.x) / static_cast<int>(gridDim.x)"),
    ("a share without its last anchor", "head.anchor_count * (blockIdx.x + 1) / gridDim.x;",
     "head.anchor_count * (blockIdx.x + 1) / gridDim.x - 1;"),
    ("no gradient of ignored anchors", "store(T(0), gradient);\n      continue;", "continue;"),
    ("levels off by one", "while (anchor >= head", "while (anchor > head"),
    ("empty levels are not passed", "while (anchor >= head", "if (anchor >= head"),
    ("box levels off by one", "while (a >= head", "while (a > head"),
    ("matches of the first image", "head.matches[image * head.anchor_count + anchor]", "head.matches[anchor]"),
    ("box matches of the first image", "head.matches[image * head.anchor_count + a]", "head.matches[a]"),
    ("the weight of the first image", "head.weights[image]", "head.weights[0]"),
    ("logits counted in 32 bits", "const std::int64_t place = head.levels[level].place(image, anchor",
     "const int place = head.levels[level].place(image, anchor"),
    ("deltas counted in 32 bits", "const std::int64_t place = head.levels[level].place(image, a,",
     "const int place = head.levels[level].place(image, a,"),
    ("a partial too few", "i < partial_count;", "i < partial_count - 1;"),
    ("partials added in f32", "double sum = 0;\n  for (int i = static_cast", "float sum = 0;\n  for (int i = static_cast"),
    ("partials of another image", "static_cast<std::int64_t>(blockIdx.x) * partial_count", "0 * partial_count"),
    ("the quality of another image", "const AnchorPlace box = {anchor, match, image};",
     "const AnchorPlace box = {anchor, match, 0};"),
    ("the quality of another anchor", "const AnchorPlace box = {anchor, match, image};",
     "const AnchorPlace box = {head.levels[level].first_anchor, match, image};"),
    ("background has a quality", "const T quality = foreground ?", "const T quality = match >= -2 ?"),
    ("quality losses as the focal loss", "if (f.kind == ClassLossKind::kFocal) {", "if (true) {"),
    ("threads take a logit twice", "i = begin + threadIdx.x; i < end; i += kThreads",
     "i = begin + threadIdx.x; i < end; i += kThreads / 2"),
]]
DROPOUT = [Mutant("dropout", *fields) for fields in [
    ("a value too many", "place < d.value_count", "place <= d.value_count"),
    ("the first image only", "put_dropout(d, blockIdx.y,", "put_dropout(d, 0,"),
    ("a block too few", "blocks_for(d.value_count, kThreads)", "static_cast<unsigned>(d.value_count / kThreads)"),
    ("values counted in 24 bits", "static_cast<std::uint32_t>(place)", "static_cast<std::uint32_t>(place) & 0xFFFFFF"),
    ("empty images are launched", "d.image_count == 0 || d.value_count == 0", "d.image_count == 0"),
]]
PREPARE_IMAGES = [Mutant("prepare_images", *fields) for fields in [
    ("a pixel too many", "pixel >= pixels", "pixel > pixels"),
    ("pixels counted in 29 bits", "blockIdx.y * pixels + pixel", "(blockIdx.y * pixels + pixel) & 0x1FFFFFFF"),
    ("the row of the first image", "p.rows[blockIdx.y]", "p.rows[0]"),
    ("sides swapped", "pixel % p.width), static_cast<int>(pixel / p.width)",
     "pixel / p.height), static_cast<int>(pixel % p.height)"),
    ("a block too few", "blocks_for(std::int64_t{p.height} * p.width, kThreads)",
     "static_cast<unsigned>(std::int64_t{p.height} * p.width / kThreads)"),
]]
BIAS_RELU = [Mutant("bias_relu", *fields) for fields in [
    ("a value too many", "place >= b.count", "place > b.count"),
    ("values counted in 32 bits", "const std::int64_t place = std::int64_t{blockIdx.x} * kThreads + threadIdx.x",
     "const int place = std::int64_t{blockIdx.x} * kThreads + threadIdx.x"),
    ("a pack too many", "number >= b.count / kValues", "number > b.count / kValues"),
    ("packs counted in 32 bits", "const std::int64_t number = ", "const int number = "),
    ("misaligned values in packs", "is_aligned_to_packs(b.values) &&", "true &&"),
    ("packs of two pixels", "b.channel_stride == 1 && b.channel_count % kValues == 0", "b.channel_stride == 1"),
    ("packs in row-major order", "b.channel_stride == 1 &&", "true &&"),
    ("pass_and_add without its barrier", "= thread_sums[v];\n  __syncthreads();", "= thread_sums[v];"),
    ("sums of a thread from nothing", "Sum thread_sums[kValues] = {};",
     "Sum thread_sums[kValues];\n  for (int v = 0; v < kValues; ++v) thread_sums[v] = 1;"),
    ("sums before the mask", "thread_sums[v] += static_cast<Sum>(gradient);",
     "thread_sums[v] += static_cast<Sum>(loaded(packs[1].values[v]));"),
    ("the mask from dy", "{b.output, b.output_gradients}", "{b.output_gradients, b.output_gradients}"),
    ("y and dy swapped", "{b.output, b.output_gradients}", "{b.output_gradients, b.output}"),
    ("the gradient is not written", "store_pack(passed, b.gradient + place);", ""),
    ("the gradient at another place", "b.gradient + place", "b.gradient + share.place"),
    ("sums of one channel for all of a pack", "thread_sums[v] += ", "thread_sums[0] += "),
    ("every thread writes a bias", "if (sums.are_whole) b.bias_gradient", "b.bias_gradient"),
    ("gradients in packs of two rows", "suits_packs = b.channel_count % kValues == 0 &&", "suits_packs = b.channel_count > 3 &&"),
    ("misaligned outputs in packs", "is_aligned_to_packs(b.output) &&", "true &&"),
    ("misaligned gradients in packs", "is_aligned_to_packs(b.output_gradients) &&\n                           is_aligned_to_packs(b.gradient);", "true;"),
    ("a gradient of nothing is launched", "b.row_count == 0", "b.row_count < 0"),
    ("the residual of another pack", "residual = reinterpret_cast<const Values*>(b.residual)[number]",
     "residual = reinterpret_cast<const Values*>(b.residual)[number / 2]"),
    ("the bias of the pack's first channel", "channel + i, &residual", "channel, &residual"),
]] + [Mutant("bias_relu", *fields, "formulas.h") for fields in [
    ("the mask lets 0 pass", "y <= T(0) ? T(0)", "y < T(0) ? T(0)"),
    ("the mask stops NaN", "y <= T(0) ? T(0) : output_gradient", "y > T(0) ? output_gradient : T(0)"),
]]
GROUP_NORM = [Mutant("group_norm", *fields) for fields in [
    ("add_squares without its barrier", "sums[1][threadIdx.x] = squares;\n  __syncthreads();\n  const Tile",
     "sums[1][threadIdx.x] = squares;\n  const Tile"),
    ("finish_statistics without its first barrier", "sums[1][threadIdx.x] = squares;\n  __syncthreads();\n  for",
     "sums[1][threadIdx.x] = squares;\n  for"),
    ("finish_statistics without the loop's barrier", "    }\n    __syncthreads();\n  }\n  if (threadIdx.x != 0)",
     "    }\n  }\n  if (threadIdx.x != 0)"),
    ("add_gradients without its barrier", "= products[v];\n  }\n  __syncthreads();", "= products[v];\n  }"),
    ("add_chunks without its barrier", "sums[1][threadIdx.x] = product;\n  __syncthreads();",
     "sums[1][threadIdx.x] = product;"),
    ("threads past a tile's rows", "row < tile.rows && ", ""),
    ("columns past the channels", "share.column * kValues < norm.channel_count && ", ""),
    ("a pixel's row too few", "(end - first + tile.rows - 1) / tile.rows", "(end - first) / tile.rows"),
    ("misaligned input in packs", "is_aligned_to_packs(f.norm.values) && is_aligned_to_packs(f.out)", "true"),
    ("misaligned gradients in packs",
     "is_aligned_to_packs(b.norm.values) &&\n      is_aligned_to_packs(b.output_gradients) && is_aligned_to_packs(b.gradient)",
     "true"),
    ("packs over two groups", "% (kPackBytes / sizeof(Stored)) == 0", "% (kPackBytes / sizeof(Stored)) >= 0"),
    ("a slot too many", "threadIdx.x >= kSlots || slot >= channel_count", "threadIdx.x >= kSlots"),
    ("a slot's part is missing", "i < kSlotThreads;", "i < kSlotThreads - 1;"),
    ("a group too many", "place >= norm.image_count * norm.group_count", "place > norm.image_count * norm.group_count"),
    ("images backwards off by one", "gridDim.y - 1 - blockIdx.y", "gridDim.y - blockIdx.y"),
    ("chunks backwards off by one", "gridDim.x - 1 - blockIdx.x", "gridDim.x - blockIdx.x"),
    ("slots in the channels' order", "return slot % column_count * kValues + slot / column_count;", "return slot;"),
    ("a partial too few", "i < chunk_count * columns;", "i < chunk_count * columns - 1;"),
    ("partials of the first image", "const std::int64_t chunk = image * chunk_count + i / columns;",
     "const std::int64_t chunk = i / columns;"),
    ("statistics without the origin", "group_origin(norm, image, group) + distance", "distance"),
    ("every thread writes the statistics", "if (threadIdx.x != 0) return;", ""),
    ("half of the statistics", "half = kGroupThreads / 2; half > 0;", "half = kGroupThreads / 2; half > 1;"),
    ("rows are not added", "for (int row = 1; row < tile.rows; ++row)", "for (int row = 1; row < tile.rows - 1; ++row)"),
    ("a chunk's slots only of the first block", "std::int64_t{blockIdx.x} * kSlots + threadIdx.x % kSlots", "threadIdx.x % kSlots"),
    ("empty images are launched", "norm.image_count == 0 || norm.pixel_count == 0", "norm.image_count == 0"),
]]
BATCH_NORM = [Mutant("batch_norm", *fields) for fields in [
    ("add_squares without its barrier", "= squares;\n  }\n  __syncthreads();", "= squares;\n  }"),
    ("add_gradients without its barrier", "= products[v];\n  }\n  __syncthreads();", "= products[v];\n  }"),
    ("sums from nothing", "Sum thread_sums[kValues] = {}, thread_squares[kValues] = {};",
     "Sum thread_sums[kValues], thread_squares[kValues];\n  for (int v = 0; v < kValues; ++v) thread_sums[v] = thread_squares[v] = 1;"),
    ("gradients' sums from nothing", "Sum gradient_sums[kValues] = {}, products[kValues] = {};",
     "Sum gradient_sums[kValues], products[kValues];\n  for (int v = 0; v < kValues; ++v) gradient_sums[v] = products[v] = 1;"),
    ("sums are not moved to the origin", "squares += shift * (2 * sum + share.count * shift);", ""),
    ("sums moved after the squares' own", "      squares += shift * (2 * sum + share.count * shift);\n      sum += share.count * shift;",
     "      sum += share.count * shift;\n      squares += shift * (2 * sum + share.count * shift);"),
    ("statistics without the origin", "channel_origin(f.norm, sums.channel) + distance", "distance"),
    ("all threads count from the channel's origin", "near[v] = loaded(norm.values[share.place + v]);",
     "near[v] = loaded(norm.values[share.channel + v]);"),
    ("negative variances", "variance < 0 ? 0 : variance", "-variance"),
    ("no residual", "kHasResidual ? loaded(packs[kSources - 1].values[v]) : T(0)", "T(0)"),
    ("the residual is x", "sources[kSources - 1] = f.residual;", "sources[kSources - 1] = f.norm.values;"),
    ("a ReLU that nobody asked for", "residual, f.norm.relu)", "residual, true)"),
    ("the mask from dy", "sources[kSources - 1] = b.output;", "sources[kSources - 1] = b.output_gradients;"),
    ("no mask of y", "gradient = through_relu(loaded(packs[kSources - 1].values[v]), gradient);", ""),
    ("a mask that nobody asked for", "} else if (b.norm.relu) {", "} else {"),
    ("the residual's gradient is not written", "if (kHasOutput) store_pack(passed, b.residual_gradient + place);", ""),
    ("the residual's gradient at another place", "store_pack(passed, b.residual_gradient + place)",
     "store_pack(passed, b.residual_gradient + share.place)"),
    ("the input's gradient masked by x, too", "relu = b.norm.relu && !has_output", "relu = b.norm.relu"),
    ("the input's gradient without a mask", "if (relu) gradient = through_relu(channels[v].normalised(x), gradient);", ""),
    ("the input's gradient from dy", "has_output ? b.residual_gradient : b.output_gradients", "b.output_gradients"),
    ("the coefficients of the column's first channel", "2 * (share.channel + v);", "2 * share.channel;"),
    ("the norm of the column's first channel", "const std::int64_t channel = share.channel + v;", "const std::int64_t channel = share.channel;"),
    ("packs of two rows", "norm.channel_count % (kPackBytes / sizeof(Stored)) == 0 &&", "norm.channel_count > 3 &&"),
    ("misaligned values in packs", "is_aligned_to_packs(norm.values) && (is_aligned_to_packs(others) && ...)", "true"),
    ("empty batches are launched", "f.norm.row_count == 0", "f.norm.row_count < 0"),
    ("an input's gradient that nobody wants", "if (b.gradient != nullptr) {", "{"),
]] + [
    Mutant("batch_norm", "the mask lets 0 pass", "y <= T(0) ? T(0)", "y < T(0) ? T(0)", "formulas.h"),
] + [Mutant("batch_norm", *fields, "batch_norm_formulas.h") for fields in [
    ("the ReLU turns NaN to 0", "relu && y < T(0) ? T(0) : y", "relu && !(y > T(0)) ? T(0) : y"),
    ("the biased variance moves", "(count / larger(count - 1, 1.0))", "1.0"),
    ("the running statistics jump", "(1 - f.momentum)", "(0 * f.momentum)"),
]]
# What batch norm and the gradient of bias and ReLU share.
CHANNEL_SUMS = [Mutant(kernel, *fields, "channel_sums.cuh") for kernel in ("batch_norm", "bias_relu") for fields in [
    ("add_chunks without its first barrier", "= out.values[s];\n  __syncthreads();\n  for", "= out.values[s];\n  for"),
    ("add_chunks without the loop's barrier", "    }\n    __syncthreads();\n  }\n  out.are_whole", "    }\n  }\n  out.are_whole"),
    ("threads past a tile's rows", "row < tile.rows && ", ""),
    ("columns past the channels", "share.channel < rows.channel_count && ", ""),
    ("a row too few", "(end - first + tile.rows - 1) / tile.rows", "(end - first) / tile.rows"),
    ("tiles of one column too few", "(all + columns - 1) / columns", "all / columns"),
    ("every block takes the first tile", "std::int64_t{block % tile.count} * tile.columns * kValues",
     "std::int64_t{0} * tile.columns * kValues"),
    ("rows are not all added", "for (int row = 0; row < tile.rows; ++row)", "for (int row = 0; row < tile.rows - 1; ++row)"),
    ("a channel too many in a tile", "i >= kValues * tile.columns || channel >= rows.channel_count", "i >= kValues * tile.columns"),
    ("channels of the next tile, too", "i >= kValues * tile.columns || ", ""),
    ("partials of the first chunk", "kSums * (share.chunk * rows.channel_count + channel)", "kSums * channel"),
    ("a chunk too few", "chunk < chunk_count;", "chunk < chunk_count - 1;"),
    ("half of the chunks' sums", "half >= kSlots;", "half > kSlots;"),
    ("a slot past the channels", "threadIdx.x < kSlots && out.channel < rows.channel_count", "threadIdx.x < kSlots"),
    ("every thread writes the sums", "threadIdx.x < kSlots && out.channel", "out.channel"),
    ("sums of a thread begin anywhere", "double totals[kSums] = {};", "double totals[kSums] = {1};"),
]] + [Mutant(kernel, *fields, "kernels.h") for kernel in ("batch_norm", "bias_relu") for fields in [
    ("a chunk too few in the grid", "(row_count + rows - 1) / rows", "row_count / rows"),
]] + [Mutant("batch_norm", "blocks backwards off by one", "gridDim.x - 1 - blockIdx.x", "gridDim.x - blockIdx.x", "channel_sums.cuh")]
# A kernel's walk over its packs, with each that has one.
WALK = [Mutant(kernel, *fields, "launch_cuda.cuh") for kernel in ("batch_norm", "bias_relu", "group_norm") for fields in [
    ("a walk counted in 32 bits", "std::int64_t place, step;", "int place, step;"),
    ("packs loaded past the end", "smaller(i + k, walk.count - 1)", "(i + k)"),
    ("packs used past the end", "if (i + k < walk.count) body", "body"),
    ("a pack too few", "for (int i = 0; i < walk.count; i += kAhead)", "for (int i = 0; i < walk.count - 1; i += kAhead)"),
]]
LAUNCH = [Mutant("bias_relu", *fields, "launch_cuda.cuh") for fields in [
    ("blocks_for rounds down", "(count + threads - 1) / threads", "count / threads"),
    ("blocks_for counts in 31 bits", "(count + threads - 1) / threads", "(static_cast<int>(count) + threads - 1) / threads"),
    ("half of a pack's alignment", "% kPackBytes == 0", "% (kPackBytes / 2) == 0"),
    ("half a pack is stored", "memcpy(&words, &pack, sizeof words);", "memcpy(&words, &pack, sizeof words / 2);"),
]]
# How half lies in memory; the reference is LibTorch's.
HALF = [Mutant("bias_relu", *fields, "formulas.h") for fields in [
    ("half is read as bfloat16", "return float_from_float16(value.bits);", "return float_from_bfloat16(value.bits);"),
    ("half is written as bfloat16", "place->bits = float16_from_float(value);", "place->bits = bfloat16_from_float(value);"),
]] + [Mutant("prepare_images", "pixels of half are written as f32", "p.type == PixelType::kFloat16", "false", "kernels.h")]
MUTANTS = HALF + MATCHER + ATSS + PARTIAL_BOXES + NMS + HEAD_LOSSES + DROPOUT + PREPARE_IMAGES + BIAS_RELU + GROUP_NORM + BATCH_NORM + CHANNEL_SUMS + WALK + LAUNCH


class Unwritten(Exception):
    """What the compiler says of a variable."""


class Builder:
    def __init__(self, build):
        self.build = build
        commands = json.loads((build / "compile_commands.json").read_text())
        self.compile = {Path(entry["file"]).stem: shlex.split(entry["command"]) for entry in commands
                        if "retina_emulated_ops.dir" in entry["command"]}
        ninja = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", "bin/emulation_test"],
                               capture_output=True, text=True, check=True)
        # ": && LINK && :"
        self.link = re.sub(r"^: && | && :$", "", ninja.stdout.splitlines()[-1])

    def executable(self, mutant, folder):
        """emulation_test with the mutant's object for the kernel's."""
        stem = f"{mutant.kernel}_cuda"
        kernel = OPS / f"{stem}.cu"
        if mutant.source:
            header = folder / "shared/ops" / mutant.source
            header.parent.mkdir(parents=True)
            header.write_text(mutant.text())
        text = kernel.read_text() if mutant.source else mutant.text()
        source, output = folder / f"{stem}.cpp", folder / f"{stem}.o"
        source.write_text(f'#line 1 "{kernel}"\n' + rewrite_cuda.rewritten(text))
        command = self.compile[stem]
        command = command[:command.index("-o")] + ["-o", output, "-c", source]
        # The mutant's header comes before the tree's.
        command.insert(next(i for i, word in enumerate(command) if str(word).startswith("-I")), f"-I{folder}")
        command = [word for word in command if word not in ("-w", "-Werror")] + WARNINGS
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            warned = re.search(r"error: (.*uninitialized.*)", done.stderr)
            raise Unwritten(warned[1]) if warned else ValueError(done.stderr)
        executable = folder / "emulation_test"
        link = [output if word.endswith(f"retina_emulated_ops.dir/{stem}.cpp.o") else word
                for word in shlex.split(self.link)]
        link[link.index("-o") + 1] = executable
        subprocess.run(link, cwd=self.build, check=True)
        return executable

    def what_finds(self, mutant):
        """The first line that tells of a failure, or None."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                executable = self.executable(mutant, Path(folder))
                done = subprocess.run(
                    [executable, f"--gtest_filter={SUITES[mutant.kernel]}.*", "--gtest_fail_fast"],
                    env=os.environ | {"RETINA_EMULATION_SEED": "1"}, capture_output=True, text=True,
                    timeout=TIMEOUT_S)
            except Unwritten as warning:
                return str(warning)
            except subprocess.TimeoutExpired:
                return f"more than {TIMEOUT_S} s"
        if done.returncode == 0:
            return None
        lines = (done.stdout + done.stderr).splitlines()
        reasons = [line.strip() for line in lines
                   if re.search(r"Which is: \"|runtime error|: Failure", line)]
        return next((line for line in reasons if "Failure" not in line),
                    reasons[0] if reasons else f"exit code {done.returncode}")


def main(arguments):
    if arguments == ["--check"]:
        names = [(mutant.kernel, mutant.name) for mutant in MUTANTS]
        assert len(names) == len(set(names)), "two mutants of a kernel share a name"
        for mutant in MUTANTS:
            mutant.text()
        print(f"{len(MUTANTS)} mutants apply")
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 64
    builder = Builder(Path(arguments[0]).resolve())
    tried = [mutant for mutant in MUTANTS if not arguments[1:] or mutant.name in arguments[1:]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = list(pool.map(builder.what_finds, tried))
    for mutant, reason in zip(tried, reasons):
        print(f"{mutant.kernel}: {mutant.name}: {reason or 'NOT FOUND'}")
    found = sum(reason is not None for reason in reasons)
    print(f"{found} of {len(tried)} mutants found")
    return 0 if found == len(tried) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
