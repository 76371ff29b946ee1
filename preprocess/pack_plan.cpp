#include "preprocess/pack_plan.h"

#include <unordered_map>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/random.h"

namespace retina {

PackPlan make_pack_plan(Instances instances, const std::vector<int>& image_labels) {
  const bool has_classes = !image_labels.empty();
  RETINA_CHECK(!has_classes || image_labels.size() == instances.images.size());
  PackPlan plan;
  plan.categories = CategoryMap(std::move(instances.categories));
  // Part of the format's promise (same input, same bytes): never change seed, use or stream.
  const auto order =
      permutation(instances.images.size(), {.seed = 0, .use = RandomUse::kShuffle, .stream = 0});
  std::unordered_map<std::int64_t, std::size_t> place_of;
  plan.images.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    ImageInfo& info = instances.images[order[place]];
    PlannedImage& image = plan.images[place];
    image = {.id = info.id, .file_name = std::move(info.file_name)};
    if (has_classes) {
      image.label = image_labels[order[place]];
    } else {
      image.stated_size = ImageSize{.width = info.width, .height = info.height};
      place_of.emplace(info.id, place);
    }
  }
  for (const Annotation& annotation : instances.annotations) {
    const auto image = place_of.find(annotation.image_id);
    const auto label = plan.categories.label_of(annotation.category_id);
    RETINA_CHECK(image != place_of.end() && label, "annotation ", annotation.id);
    plan.images[image->second].annotations.push_back({.id = annotation.id,
                                                      .bbox = annotation.bbox,
                                                      .area = annotation.area,
                                                      .label = *label,
                                                      .iscrowd = annotation.iscrowd});
  }
  return plan;
}

}  // namespace retina
