#include "shared/data/training_sources.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "shared/base/error.h"

namespace retina {
namespace {

bool fits(const IndexEntry& entry, const BatchRequest& request) {
  const ImageSize size = framed_size({entry.width, entry.height}, request.frame);
  return size.width <= request.padded.width && size.height <= request.padded.height;
}

}  // namespace

ConcatenatedSource::ConcatenatedSource(std::vector<SourcePart> parts) : parts_(std::move(parts)) {
  for (const SourcePart& part : parts_) {
    for (IndexEntry entry : part.source->index()) {
      std::vector<int> labels(entry.labels.begin(), entry.labels.end());
      if (!part.labels.empty()) {
        for (int& label : labels) label = part.labels[static_cast<std::size_t>(label)];
        std::sort(labels.begin(), labels.end());
      }
      entry.labels = labels;
      index_.push_back(entry);
    }
    ends_.push_back(index_.size());
  }
}

Sample ConcatenatedSource::load(const BatchRequest& request, std::size_t place,
                                JpegDecoder& decoder, PixelTarget pixels) const {
  const Slot& slot = request.slots[place];
  RETINA_CHECK(slot.record < index_.size(), "image ", slot.record, " of ", index_.size());
  const auto number = static_cast<std::size_t>(
      std::upper_bound(ends_.begin(), ends_.end(), slot.record) - ends_.begin());
  const SourcePart& part = parts_[number];
  // A request of its own, with this image alone: no sample depends on the step's other slots.
  BatchRequest own{
      .slots = {slot}, .frame = request.frame, .padded = request.padded, .part = request.part};
  own.slots[0].record -= number == 0 ? 0 : ends_[number - 1];
  Sample sample = part.source->load(own, 0, decoder, pixels);
  sample.slot = slot;
  if (part.labels.empty()) return sample;
  for (std::int64_t& label : sample.labels) label = part.labels[static_cast<std::size_t>(label)];
  return sample;
}

Sample ReplacingSource::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                             PixelTarget pixels) const {
  try {
    return source_->load(request, place, decoder, pixels);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    const ImageIndex& images = index();
    const std::size_t damaged = request.slots[place].record;
    const std::size_t room = std::holds_alternative<float*>(pixels)
                                 ? std::numeric_limits<std::size_t>::max()
                                 : stored_bytes(images[damaged]);
    BatchRequest next = request;
    for (std::size_t i = 1; i < std::min(images.size(), kMostTries + 1); ++i) {
      const std::size_t record = (damaged + i) % images.size();
      if (!fits(images[record], request) || stored_bytes(images[record]) > room) continue;
      next.slots[place].record = record;
      try {
        Sample sample = source_->load(next, place, decoder, pixels);
        sample.replaced = Replaced{.record = damaged, .problem = error.what()};
        return sample;
      } catch (const Error& another) {
        if (another.kind() != ErrorKind::kData) throw;
      }
    }
    throw;
  }
}

}  // namespace retina
