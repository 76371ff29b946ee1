#include "train/memory_need.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/data/loader.h"
#include "shared/model/device.h"
#include "train/plan/step_loader.h"

namespace retina {
namespace {

// Covers the loss of allocators between blocks, and needs of other shapes than the measured ones.
constexpr double kMargin = 1.125;
// As many pixels as all levels of the pyramid divide evenly.
constexpr int kMeasuredSidePx = 128;
// Code and buffers of libraries that first run in the first steps.
constexpr std::int64_t kCpuReserveBytes = std::int64_t{64} << 20;
constexpr std::int64_t kGpuReserveBytes = std::int64_t{512} << 20;  // workspaces of cuDNN

std::int64_t pixels(const ImageSize& size) {
  return std::int64_t{size.width} * size.height;
}

}  // namespace

StepMemory::StepMemory(Replica& replica, const ImageSize& largest_padded) {
  constexpr ImageSize kSmall = {kMeasuredSidePx, kMeasuredSidePx};
  const ImageSize size = pixels(largest_padded) > pixels(kSmall) ? kSmall : largest_padded;
  const auto of_images = [&](int images) {
    return replica.trace_step(grey_batch(size, images, replica.network()));
  };
  // Not of one image, whose layout in memory is that of channels first and last at once.
  const std::vector<std::int64_t> two = of_images(2), four = of_images(4);
  RETINA_CHECK(two.size() == four.size());
  for (std::size_t i = 0; i < two.size(); ++i) {
    const double of_image = static_cast<double>(four[i] - two[i]) / 2;
    parts_.push_back({.fixed_bytes = static_cast<double>(two[i]) - 2 * of_image,
                      .bytes_per_pixel = of_image / static_cast<double>(pixels(size))});
  }
}

double StepMemory::bytes(double pixels) const {
  double most = 0;
  for (const Part& part : parts_) {
    most = std::max(most, part.fixed_bytes + part.bytes_per_pixel * pixels);
  }
  return most;
}

MemoryNeed::MemoryNeed(const Job& job, Replica& replica, std::int64_t begin, std::int64_t end)
    : on_gpu_(job.device.is_cuda()),
      padded_(TrainingPlan(*job.data->plan).largest_padded(begin, end)),
      decode_threads_(decode_threads(job).most),
      snapshot_bytes_(job.is_root() && job.options.writes() ? replica.snapshot_bytes() : 0),
      held_bytes_(on_gpu_ ? held_device_bytes(job.device) : resident_bytes()),
      free_(on_gpu_ ? free_device_memory(job.device) : free_memory(job.communicator.local_size())) {
  if (free_.limit == kThisMachine) free_.bytes = free_.bytes / 3 * 2;  // others need some, too
  for (const IndexEntry& image : job.data->plan->index()) {
    largest_stored_bytes_ =
        std::max(largest_stored_bytes_, static_cast<std::int64_t>(stored_bytes(image)));
  }
  step_.emplace(replica, padded_);
  release_freed_memory();
  if (!on_gpu_) code_bytes_ = std::max<std::int64_t>(0, resident_bytes() - held_bytes_);
}

// Returns the bytes that load_steps() allows and that decoding takes.
std::int64_t MemoryNeed::loader_bytes(int images) const {
  const LoaderOptions defaults;
  const std::int64_t batch =
      images * std::int64_t{3} * pixels(padded_) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t ahead = std::min(defaults.prefetch_batches * batch,
                                      static_cast<std::int64_t>(defaults.prefetch_bytes) + batch);
  return batch + ahead + decode_threads_ * 2 * largest_stored_bytes_;
}

std::int64_t MemoryNeed::bytes(int images) const {
  const double step = step_->bytes(static_cast<double>(images * pixels(padded_)));
  std::int64_t more = static_cast<std::int64_t>(kMargin * step);
  if (on_gpu_) {
    more += images * largest_stored_bytes_ + kGpuReserveBytes;
  } else {
    // Two shapes were measured; others are to come.
    more += 2 * code_bytes_ + loader_bytes(images) + snapshot_bytes_ + kCpuReserveBytes;
  }
  return held_bytes_ + more;
}

std::string MemoryNeed::text(int images) const {
  return cat("about ", human_bytes(static_cast<double>(bytes(images))), " of ",
             human_bytes(static_cast<double>(available_bytes())), " (", free_.limit, ")");
}

}  // namespace retina
