#include "preprocess/pack_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <regex>
#include <utility>

#include "preprocess/source_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

// Returns what equal files have in common, by image: their size and a hash; of most, which have a
// size of their own or are missing, none.
std::vector<std::optional<std::string>> contents_of(const std::vector<ImageInfo>& images,
                                                    const SplitRule& rule) {
  constexpr std::size_t kPieceBytes = 1 << 16;  // large files that differ, do in the middle or end
  const SourceImages folder(rule.images);
  std::vector<FoundFile> files(images.size());
  for_each_parallel(files.size(), rule.thread_count, [&](std::size_t i) {
    if (folder.find(images[i].file_name, files[i])) files[i] = {};
  });
  std::unordered_map<std::uint64_t, int> count_of;  // by size
  for (const FoundFile& file : files) ++count_of[file.size_bytes];
  std::vector<std::optional<std::string>> contents(images.size());
  for_each_parallel(files.size(), rule.thread_count, [&](std::size_t i) {
    const auto& [path, size_bytes, name] = files[i];
    if (path.empty() || count_of.at(size_bytes) < 2) return;
    const std::uint64_t end = size_bytes - std::min<std::uint64_t>(size_bytes, kPieceBytes);
    contents[i] = cat(size_bytes, " ", xxh3(read_part(path, size_bytes / 2, kPieceBytes)), " ",
                      xxh3(read_part(path, end, kPieceBytes)));
  });
  return contents;
}

// By image.
std::vector<std::string> groups_of(const std::vector<ImageInfo>& images, const SplitRule& rule) {
  constexpr std::size_t kLongestName = 4096;  // std::regex takes stack for each character
  const std::string& by = rule.by;
  const std::regex pattern(by == "folder" ? "^(.*)/" : by);
  std::vector<std::string> groups;
  bool has_match = by.empty();
  for (const auto& [id, name, width, height] : images) {
    std::smatch match;
    const bool matches =
        !by.empty() && name.size() <= kLongestName && std::regex_search(name, match, pattern);
    groups.push_back(matches ? match[match.size() > 1 ? 1 : 0].str() : name);
    has_match = has_match || matches;
  }
  if (!has_match) {
    throw Error(ErrorKind::kConfig,
                cat("--split-by ", escaped(by),
                    ": matches no file name (first: ", escaped(images.front().file_name), ")"));
  }
  // Groups with equal files become one, under the first of their names.
  std::unordered_map<std::string, std::string> united, group_of;
  const auto whole = [&](std::string group) {
    for (auto into = united.find(group); into != united.end(); into = united.find(group)) {
      group = into->second;
    }
    return group;
  };
  const std::vector<std::optional<std::string>> contents = contents_of(images, rule);
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (!contents[i]) continue;
    const std::string one = whole(groups[i]);
    const std::string other = whole(group_of.try_emplace(*contents[i], one).first->second);
    if (one != other) united[std::max(one, other)] = std::min(one, other);
  }
  for (std::string& group : groups) group = whole(group);
  return groups;
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

Annotation PlanBoxes::at(std::size_t i) const {
  const RecordAnnotation& box = boxes[i];
  return {.id = box.id,
          .category_id = category_ids[static_cast<std::size_t>(box.label)],
          .bbox = box.bbox,
          .area = box.area,
          .iscrowd = box.iscrowd};
}

void keep_side(Instances& instances, PlanBoxes& boxes, std::vector<int>& image_labels,
               const SplitRule& rule) {
  const auto& [train_share, is_train] = rule.side;
  const std::vector<std::string> groups = groups_of(instances.images, rule);
  std::vector<double> places;
  for (const std::string& group : groups) places.push_back(SplitSide::place_of(group));
  const auto [first, last] = std::minmax_element(places.begin(), places.end());
  const bool lacks_training = *first >= train_share,
             lacks_one = lacks_training || *last < train_share;
  const std::string lack =
      cat(rule.input, ": --split ", shortest(train_share), " leaves no image for the ",
          lacks_training ? "training" : "validation", " set");
  if (*first == *last) {
    throw Error(ErrorKind::kConfig,
                cat(lack, " (got ", counted(places.size(), "image"),
                    places.size() > 1 ? " of one group)" : ")"),
                "pack two sets of annotations");
  }
  if (lacks_one && lacks_training == is_train) {
    log_info(
        lack, "; ",
        escaped(groups[static_cast<std::size_t>((lacks_training ? first : last) - places.begin())]),
        ", whose hash is nearest to the share, goes there");
  }
  const double share = std::clamp(train_share, std::nextafter(*first, 1.0), *last);
  std::vector<ImageInfo> kept;
  std::vector<int> kept_labels;
  constexpr std::uint32_t kForeign = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> place_of(instances.images.size(), kForeign);  // among the kept ones
  for (std::size_t i = 0; i < instances.images.size(); ++i) {
    if ((places[i] < share) != is_train) continue;
    place_of[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(instances.images[i]));
    if (!image_labels.empty()) kept_labels.push_back(image_labels[i]);
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

  // The places where the boxes of each image begin.
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

PackPlan take_part(PackPlan& plan, const PackPart& part) {
  const std::size_t count = plan.images.size();
  const std::size_t first = count * (part.number - 1) / part.count;
  const std::size_t end = count * part.number / part.count;
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
