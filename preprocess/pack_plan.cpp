#include "preprocess/pack_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/random.h"

namespace retina {
namespace {

const char* set_name(bool is_train) {
  return is_train ? "training" : "validation";
}

// The file that changes sides so that neither set is empty; nullptr when none has to. It goes to
// the training set where `to_train` says so.
const ImageInfo* moved_image(const std::vector<ImageInfo>& images, double share, bool& to_train) {
  const SplitSide train{.train_share = share};
  const auto in_train = std::count_if(images.begin(), images.end(),
                                      [&](const auto& one) { return train.holds(one.file_name); });
  to_train = in_train == 0;
  if (in_train > 0 && in_train < std::ssize(images)) return nullptr;
  const bool are_one_file = std::all_of(images.begin(), images.end(), [&](const auto& one) {
    return one.file_name == images.front().file_name;
  });
  if (are_one_file) return nullptr;
  const auto distance = [&](const ImageInfo& image) {
    return std::abs(SplitSide::place_of(image.file_name) - share);
  };
  return &*std::min_element(images.begin(), images.end(), [&](const auto& a, const auto& b) {
    return distance(a) < distance(b);
  });
}

}  // namespace

void keep_side(Instances& instances, std::vector<int>& image_labels, const SplitSide& side,
               const std::string& name) {
  bool to_train = false;
  const ImageInfo* const moved = moved_image(instances.images, side.train_share, to_train);
  const std::string moved_file = moved != nullptr ? moved->file_name : "";
  std::vector<ImageInfo> kept;
  std::vector<int> kept_labels;
  std::unordered_set<std::int64_t> foreign_ids;
  for (std::size_t i = 0; i < instances.images.size(); ++i) {
    ImageInfo& image = instances.images[i];
    const bool is_moved = moved != nullptr && image.file_name == moved_file;
    if (is_moved ? to_train != side.is_train : !side.holds(image.file_name)) {
      foreign_ids.insert(image.id);
      continue;
    }
    kept.push_back(std::move(image));
    if (!image_labels.empty()) kept_labels.push_back(image_labels[i]);
  }
  if (kept.empty() || foreign_ids.empty()) {
    const bool lacks_training = kept.empty() == side.is_train;
    throw Error(
        ErrorKind::kConfig,
        cat(name, ": --split ", shortest(side.train_share), " leaves no image for the ",
            set_name(lacks_training), " set (got ", counted(instances.images.size(), "image"), ")"),
        "pack two sets of annotations");
  }
  if (moved != nullptr && to_train == side.is_train) {
    log_info(name, ": --split ", shortest(side.train_share), " gives no image to the ",
             set_name(to_train), " set; ", escaped(moved_file),
             ", whose hash is nearest to the share, goes there");
  }
  instances.images = std::move(kept);
  image_labels = std::move(kept_labels);
  std::erase_if(instances.annotations, [&](const Annotation& annotation) {
    return foreign_ids.contains(annotation.image_id);
  });
}

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

std::pair<std::size_t, std::size_t> range_of_part(std::size_t image_count, const PackPart& part) {
  return {image_count * (part.number - 1) / part.count, image_count * part.number / part.count};
}

PackPlan take_part(PackPlan& plan, const PackPart& part) {
  const auto [first, end] = range_of_part(plan.images.size(), part);
  const auto begin = plan.images.begin();
  return {.images = {std::move_iterator(begin + static_cast<std::ptrdiff_t>(first)),
                     std::move_iterator(begin + static_cast<std::ptrdiff_t>(end))},
          .categories = plan.categories};
}

}  // namespace retina
