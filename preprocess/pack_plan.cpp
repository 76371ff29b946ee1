#include "preprocess/pack_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
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

PlanBoxes::PlanBoxes(Instances& instances) {
  std::unordered_map<std::int64_t, std::size_t> place_of;
  for (std::size_t i = 0; i < instances.images.size(); ++i) {
    place_of.emplace(instances.images[i].id, i);
  }
  for (const Annotation& annotation : instances.annotations) {
    const auto image = place_of.find(annotation.image_id);
    RETINA_CHECK(image != place_of.end(), "annotation ", annotation.id);
    add(annotation, image->second);
  }
  instances.annotations = {};
}

void PlanBoxes::add(const Annotation& annotation, std::size_t image) {
  const auto [category, is_new] =
      number_of_.emplace(annotation.category_id, static_cast<int>(category_ids.size()));
  if (is_new) category_ids.push_back(annotation.category_id);
  boxes.push_back({.id = annotation.id,
                   .bbox = annotation.bbox,
                   .area = annotation.area,
                   .label = category->second,
                   .iscrowd = annotation.iscrowd});
  image_of.push_back(static_cast<std::uint32_t>(image));
}

std::map<std::int64_t, std::int64_t> PlanBoxes::counts() const {
  std::vector<std::int64_t> by_number(category_ids.size());
  for (const RecordAnnotation& box : boxes) ++by_number[static_cast<std::size_t>(box.label)];
  std::map<std::int64_t, std::int64_t> counts;
  for (std::size_t i = 0; i < by_number.size(); ++i) counts.emplace(category_ids[i], by_number[i]);
  return counts;
}

void keep_side(Instances& instances, PlanBoxes& boxes, std::vector<int>& image_labels,
               const SplitSide& side, const std::string& name) {
  bool to_train = false;
  const ImageInfo* const moved = moved_image(instances.images, side.train_share, to_train);
  const std::string moved_file = moved != nullptr ? moved->file_name : "";
  std::vector<ImageInfo> kept;
  std::vector<int> kept_labels;
  constexpr std::uint32_t kForeign = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> place_of(instances.images.size(), kForeign);  // among the kept ones
  for (std::size_t i = 0; i < instances.images.size(); ++i) {
    ImageInfo& image = instances.images[i];
    const bool is_moved = moved != nullptr && image.file_name == moved_file;
    if (is_moved ? to_train != side.is_train : !side.holds(image.file_name)) continue;
    place_of[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(image));
    if (!image_labels.empty()) kept_labels.push_back(image_labels[i]);
  }
  if (kept.empty() || kept.size() == place_of.size()) {
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
  std::size_t kept_boxes = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (place_of[boxes.image_of[i]] == kForeign) continue;
    boxes.image_of[kept_boxes] = place_of[boxes.image_of[i]];
    boxes.boxes[kept_boxes++] = boxes.boxes[i];
  }
  boxes.image_of.resize(kept_boxes);
  boxes.boxes.resize(kept_boxes);
}

PackPlan make_pack_plan(Instances instances, PlanBoxes boxes,
                        const std::vector<int>& image_labels) {
  const bool has_classes = !image_labels.empty();
  RETINA_CHECK(!has_classes || image_labels.size() == instances.images.size());
  RETINA_CHECK(boxes.size() < std::numeric_limits<std::uint32_t>::max());
  PackPlan plan;
  plan.categories = CategoryMap(std::move(instances.categories));
  // Part of the format's promise (same input, same bytes): never change seed, use or stream.
  const auto order =
      permutation(instances.images.size(), {.seed = 0, .use = RandomUse::kShuffle, .stream = 0});

  // Where each image's boxes begin.
  std::vector<std::uint32_t> next(order.size());
  for (const std::uint32_t image : boxes.image_of) ++next[image];
  std::uint32_t sum = 0;
  for (const auto image : order) {
    const std::uint32_t count = std::exchange(next[image], sum);
    sum += count;
  }

  // They go there in place, the file's order kept: image_of becomes where each box goes.
  std::vector<int> labels;
  for (const std::int64_t id : boxes.category_ids) {
    const auto label = plan.categories.label_of(id);
    RETINA_CHECK(label, "category ", id);
    labels.push_back(*label);
  }
  for (RecordAnnotation& box : boxes.boxes) {
    box.label = labels[static_cast<std::size_t>(box.label)];
  }
  for (std::uint32_t& image : boxes.image_of) image = next[image]++;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    while (boxes.image_of[i] != i) {
      const std::size_t to = boxes.image_of[i];
      std::swap(boxes.boxes[i], boxes.boxes[to]);
      std::swap(boxes.image_of[i], boxes.image_of[to]);
    }
  }
  std::vector<std::uint32_t>().swap(boxes.image_of);  // gives its memory back
  plan.boxes = std::move(boxes.boxes);

  plan.images.resize(order.size());
  const std::span<const RecordAnnotation> all(plan.boxes);
  std::size_t begin = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto from = order[place];
    ImageInfo& info = instances.images[from];
    PlannedImage& image = plan.images[place];
    image = {.id = info.id, .file_name = std::move(info.file_name)};
    if (has_classes) {
      image.label = image_labels[from];
    } else {
      image.stated_size = ImageSize{.width = info.width, .height = info.height};
      image.annotations = all.subspan(begin, next[from] - begin);
      begin = next[from];
    }
  }
  return plan;
}

std::pair<std::size_t, std::size_t> range_of_part(std::size_t image_count, const PackPart& part) {
  return {image_count * (part.number - 1) / part.count, image_count * part.number / part.count};
}

PackPlan take_part(PackPlan& plan, const PackPart& part) {
  const auto [first, end] = range_of_part(plan.images.size(), part);
  const auto begin = plan.images.begin();
  PackPlan taken{.images = {std::move_iterator(begin + static_cast<std::ptrdiff_t>(first)),
                            std::move_iterator(begin + static_cast<std::ptrdiff_t>(end))},
                 .categories = plan.categories};
  std::size_t box_count = 0;
  for (const PlannedImage& image : taken.images) box_count += image.annotations.size();
  taken.boxes.reserve(box_count);  // so that they stay where they are
  for (PlannedImage& image : taken.images) {
    const std::size_t at = taken.boxes.size();
    taken.boxes.insert(taken.boxes.end(), image.annotations.begin(), image.annotations.end());
    image.annotations = std::span(taken.boxes).subspan(at);
  }
  return taken;
}

}  // namespace retina
