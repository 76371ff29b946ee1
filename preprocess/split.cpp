#include "preprocess/split.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_set>

#include "shared/base/error.h"
#include "shared/base/hash.h"

namespace retina {

std::string SplitPart::text() const {
  return cat(folder(), " ", shortest(train_share));
}

bool SplitPart::holds(const std::string& file_name) const {
  return (std::ldexp(static_cast<double>(xxh3(file_name) >> 11), -53) < train_share) == is_train;
}

void keep_part(Instances& instances, const SplitPart& part, const std::string& name) {
  const auto kept =
      std::stable_partition(instances.images.begin(), instances.images.end(),
                            [&](const ImageInfo& image) { return part.holds(image.file_name); });
  if (kept == instances.images.begin() || kept == instances.images.end()) {
    const bool lacks_training = (kept == instances.images.begin()) == part.is_train;
    throw Error(ErrorKind::kConfig,
                cat(name, ": --split ", shortest(part.train_share), " leaves no image for the ",
                    lacks_training ? "training" : "validation", " set (got ",
                    instances.images.size(), " images)"),
                "choose another share, or pack two sets of annotations");
  }
  std::unordered_set<std::int64_t> foreign_ids;
  for (auto image = kept; image != instances.images.end(); ++image) foreign_ids.insert(image->id);
  instances.images.erase(kept, instances.images.end());
  std::erase_if(instances.annotations, [&](const Annotation& annotation) {
    return foreign_ids.contains(annotation.image_id);
  });
}

}  // namespace retina
