#include "shared/evaluation/score/ground_truth.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace retina {

Instances ground_truth_of(const ShardSet& shards, const std::function<void()>& on_record) {
  check_task(shards.manifest(), Task::kDetection, shards.folder());
  const auto& index = shards.index();
  std::vector<std::size_t> places(index.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::sort(places.begin(), places.end(),
            [&](std::size_t a, std::size_t b) { return index[a].image_id < index[b].image_id; });
  Instances truth{.images = {}, .annotations = {}, .categories = shards.manifest().categories};
  for (const std::size_t place : places) {
    const Record record = shards.read(place);
    if (on_record) on_record();
    if (record.tile && !record.whole_annotations) continue;  // another tile has the image's boxes
    truth.images.push_back({.id = record.image_id,
                            .file_name = record.file_name,
                            .width = record.tile ? record.tile->image_width : record.width,
                            .height = record.tile ? record.tile->image_height : record.height});
    for (const RecordAnnotation& one :
         record.tile ? *record.whole_annotations : record.annotations) {
      const auto label = static_cast<std::size_t>(one.label);
      truth.annotations.push_back({.id = one.id,
                                   .image_id = record.image_id,
                                   .category_id = truth.categories.at(label).id,
                                   .bbox = one.bbox,
                                   .area = one.area,
                                   .iscrowd = one.iscrowd});
    }
  }
  return truth;
}

void keep_first_images(Instances& truth, std::int64_t count) {
  if (count <= 0 || static_cast<std::size_t>(count) >= truth.images.size()) return;
  std::vector<std::int64_t> ids;
  for (const ImageInfo& image : truth.images) ids.push_back(image.id);
  std::sort(ids.begin(), ids.end());
  const std::int64_t end = ids[static_cast<std::size_t>(count)];
  std::erase_if(truth.images, [&](const ImageInfo& one) { return one.id >= end; });
  std::erase_if(truth.annotations, [&](const Annotation& one) { return one.image_id >= end; });
}

}  // namespace retina
