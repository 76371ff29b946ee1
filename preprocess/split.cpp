#include "preprocess/split.h"

#include <cmath>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/hash.h"

namespace retina {

std::string SplitPart::text() const {
  return cat(folder(), " ", shortest(train_share));
}

bool SplitPart::holds(const std::string& file_name) const {
  return (std::ldexp(static_cast<double>(xxh3(file_name) >> 11), -53) < train_share) == is_train;
}

void keep_part(Instances& instances, std::vector<int>& image_labels, const SplitPart& part,
               const std::string& name) {
  std::vector<ImageInfo> kept;
  std::vector<int> kept_labels;
  std::unordered_set<std::int64_t> foreign_ids;
  for (std::size_t i = 0; i < instances.images.size(); ++i) {
    ImageInfo& image = instances.images[i];
    if (!part.holds(image.file_name)) {
      foreign_ids.insert(image.id);
      continue;
    }
    kept.push_back(std::move(image));
    if (!image_labels.empty()) kept_labels.push_back(image_labels[i]);
  }
  if (kept.empty() || foreign_ids.empty()) {
    const bool lacks_training = kept.empty() == part.is_train;
    throw Error(ErrorKind::kConfig,
                cat(name, ": --split ", shortest(part.train_share), " leaves no image for the ",
                    lacks_training ? "training" : "validation", " set (got ",
                    instances.images.size(), " images)"),
                "choose another share, or pack two sets of annotations");
  }
  instances.images = std::move(kept);
  image_labels = std::move(kept_labels);
  std::erase_if(instances.annotations, [&](const Annotation& annotation) {
    return foreign_ids.contains(annotation.image_id);
  });
}

}  // namespace retina
