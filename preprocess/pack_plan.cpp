#include "preprocess/pack_plan.h"

#include <unordered_map>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/random.h"

namespace retina {

PackPlan make_pack_plan(Instances instances) {
  PackPlan plan;
  plan.categories = CategoryMap(std::move(instances.categories));
  // Part of the format's promise (same input, same bytes): never change seed, use or stream.
  const auto order =
      permutation(instances.images.size(), {.seed = 0, .use = RandomUse::kShuffle, .stream = 0});
  std::unordered_map<std::int64_t, std::size_t> place_of;
  plan.images.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    plan.images[place].info = std::move(instances.images[order[place]]);
    place_of.emplace(plan.images[place].info.id, place);
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
