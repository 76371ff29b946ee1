#include "preprocess/space_check.h"

#include <algorithm>

#include "preprocess/source_images.h"
#include "shared/base/file.h"

namespace retina {
namespace {

constexpr std::size_t kSampledImages = 100;
// The sample's mean is off by some per cent; only a clear lack of space is an error here.
constexpr double kSurelyNeededPart = 0.8;

}  // namespace

void check_free_space(const PackOptions& options, const PackPlan& plan,
                      const std::string& scratch) {
  if (options.max_side_px || options.convert) return;
  // The plan is shuffled: its first images are a fair sample.
  const std::size_t sampled = std::min(kSampledImages, plan.images.size());
  double sampled_bytes = 0;
  const SourceImages images(options.images_folder(), options.format);
  for (std::size_t i = 0; i < sampled; ++i) {
    const auto size_bytes = images.size_bytes(plan.images[i].file_name);
    if (size_bytes) sampled_bytes += static_cast<double>(*size_bytes);
  }
  const double needed_bytes = kSurelyNeededPart * sampled_bytes /
                              static_cast<double>(std::max<std::size_t>(sampled, 1)) *
                              static_cast<double>(plan.images.size());
  require_space(options.output, needed_bytes, "--output");
  if (scratch.empty()) return;
  require_space(scratch, std::min(needed_bytes, static_cast<double>(options.shard_size_bytes)),
                "--scratch");
}

}  // namespace retina
