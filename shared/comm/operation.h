// What a rank does (phase) and which collective it calls (operation): what the watch over ranks
// sends in its heartbeats.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "shared/comm/element_type.h"

namespace retina {

// What the program's main thread does.
enum class Phase : std::uint16_t {
  kStart = 0,            // before the first step, and between phases that nobody named
  kDataWait = 1,         // waiting for the loader
  kDataDecode = 2,       // reading and decoding images
  kForward = 3,          // model and loss
  kBackward = 4,         // gradients
  kReduce = 5,           // waiting for gradients to be summed
  kUpdate = 6,           // the optimiser's step
  kValidate = 7,         // detecting on the validation set and scoring
  kCheckpointWrite = 8,  // snapshot, waiting for the writer, writing
  kEnd = 9,              // the work is done, other ranks may not be
  kMetricsWrite = 10,    // appending to the run's log
};

// "data.wait", "forward", ...; "unknown" for any other number.
std::string_view phase_name(Phase phase);

// Phases that come in every step and take about as long on every rank. The others may keep one rank
// busy for long: opening inputs, scoring a validation, a slow disk.
bool is_of_step(Phase phase);

// Phases in which a rank may wait for a disk or a mount, however slow that is.
bool is_write(Phase phase);

// The calls of communicator.h.
enum class CollectiveKind : std::uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kGather = 2,
  kBarrier = 3,
  kAllReduceOrdered = 4
};

// One collective as its caller sees it. Equal on all ranks, or the ranks have diverged.
struct Operation {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  std::int32_t root = 0;         // of broadcast and gather
  std::uint64_t count = 0;       // elements; 0 for gather, whose lengths may differ
  std::array<char, 32> label{};  // the caller's name for it, e.g. "bucket 5"; ends with a zero

  // Cuts what is too long.
  void set_label(std::string_view text);
  std::string_view label_text() const;
  std::uint64_t bytes() const { return count * element_size_bytes(type); }
  // xxh3 of every field.
  std::uint64_t hash() const;
  // The label, or the kind where there is none: "bucket 5", "broadcast".
  std::string name() const;
  // "all_reduce (sum) of 1,048,576 f32".
  std::string describe() const;
};

// 1048576 as "1,048,576".
std::string with_commas(std::uint64_t value);

}  // namespace retina
