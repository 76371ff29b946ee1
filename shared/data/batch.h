// A batch: images with their boxes, ready for the network or as they were decoded. Plain memory, no
// LibTorch; the caller's allocator decides where the pixels live.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/image/frame.h"
#include "shared/image/tile_grid.h"

namespace retina {

// A place in a batch.
struct Slot {
  std::size_t record = 0;         // place in ShardSet::index()
  bool flip = false;              // mirror left-right
  bool counts = true;             // false: a pad slot, repeats a real image and is counted nowhere
  std::optional<Warp> warp = {};  // geometry and colour, of the mirrored image
  // Least share of a warped box's hull that must lie inside the image; with less the box is
  // dropped.
  double box_visibility = 0;
};

// A batch's role for the trainer: a micro-batch of a step. An evaluation counts as one step.
struct StepPart {
  std::int64_t step = 0;            // counted from 0 over the run
  int real_image_count = 0;         // images of the whole step, over all ranks and micro-batches
  bool is_last_micro_batch = true;  // this rank's last; all ranks have as many
  std::int64_t first_slot = 0;      // this micro-batch's first among the step's slots
};

// Description of a batch to load: all slots share one padded shape.
struct BatchRequest {
  std::vector<Slot> slots = {};
  FrameRule frame = {};
  ImageSize padded = {};  // of every image, px
  StepPart part = {};
};

// The damaged record that a sample replaces.
struct Replaced {
  std::size_t record = 0;    // place in ShardSet::index()
  std::string problem = {};  // that record's, one line
};

// An image of a batch, without its pixels.
struct Sample {
  Slot slot;
  std::int64_t image_id = 0;
  std::string file_name = {};                         // the record's
  int original_width_px = 0, original_height_px = 0;  // as stored in the shard
  int width_px = 0, height_px = 0;                    // after the resize, before padding
  // Part of the whole image that a tile shows, in that image's pixels.
  std::optional<TileRect> tile = {};
  // Trainable ground truth (no crowds, an area in f32: record.h's training_box): xyxy, f32, pixels
  // of the resized (and, as the slot says, mirrored and warped) image. A warped box is its hull,
  // clipped, and dropped if too little of it is visible. labels: dense, same length. In a
  // classification set there are no boxes, and labels holds the one class of the image.
  std::vector<std::array<float, 4>> boxes = {};
  std::vector<std::int64_t> labels = {};
  // Boxes of a tile with too little of an object inside it (RecordAnnotation::is_partial), neither
  // object nor background to training (ops/matcher.h). In the form of `boxes`, but kept however
  // little of them a warp leaves visible.
  std::vector<std::array<float, 4>> partial_boxes = {};
  std::vector<std::int64_t> ignored = {};   // ids of other annotations that are not crowds either
  std::optional<FileProblem> problem = {};  // why there are no pixels; image files only
  std::optional<Replaced> replaced = {};    // training only, see training_sources.h
};

// The two forms of a batch's pixels.
enum class PixelForm {
  kNormalised,  // f32, as the network takes them
  kStored,      // u8, as decoded: mirror, resize, warp and normalise are left to the consumer
};

struct Batch {
  std::vector<Sample> samples = {};
  // kNormalised: [N, 3, H, W] f32, RGB, zero-padded on the right and at the bottom.
  std::shared_ptr<float[]> images = {};
  // kStored: [height, width, 3] u8 RGB of sample i from stored[offsets[i]] on, in its original
  // size; black if it has a problem. One block.
  std::shared_ptr<std::uint8_t[]> stored = {};
  std::vector<std::size_t> offsets = {};
  ImageSize padded = {};  // this and the next: the request's
  StepPart part = {};
};

// Destination of one image of a batch, by the form: 3 planes of the padded size, or
// original_height_px x original_width_px x 3 bytes.
using PixelTarget = std::variant<float*, std::uint8_t*>;

// Returns `bytes` of memory (pinned for a GPU, or plain) aligned for f32, not initialised.
using BatchAllocator = std::function<std::shared_ptr<void>(std::size_t bytes)>;
std::shared_ptr<void> allocate_plain(std::size_t bytes);

}  // namespace retina
