// --tensorboard DIR: an event file; TensorBoard shows a folder of them as one run.
//
// Format: TFRecords (tensorflow/core/lib/io/record_writer.h), each a u64 length, the masked CRC-32C
// of these 8 bytes, the data and the masked CRC-32C of the data, all little-endian. The data are
// protocol buffers: an Event of tensorflow/core/util/event.proto each, in it a Summary of
// framework/summary.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/report/report.h"

namespace retina {

// Tags and values. The part before the slash is TensorBoard's group, as in "train/loss"; the file
// has an f32.
using Scalars = std::vector<std::pair<std::string, double>>;

class EventFile {
 public:
  // Opens a new file in `folder`, after those that are there. Training continues after `step`:
  // TensorBoard drops their values of later steps. Throws kCannotCreate, kIo.
  EventFile(const std::string& folder, std::int64_t step);

  // Appends the values; other processes see them when this returns. Throws kIo.
  void add_scalars(std::int64_t step, const Scalars& scalars);
  // Appends images under "validation/image 1" and so on.
  void add_images(std::int64_t step, const Gallery& gallery);

  // Writes to the disk. A file that was removed meanwhile costs a warning. Throws kIo.
  void sync();

 private:
  void write(std::string_view event);
  AppendFile file_;
  bool is_missing_ = false;  // the removal was reported
};

}  // namespace retina
