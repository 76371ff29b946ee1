#include "preprocess/export.h"

#include <algorithm>

#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/evaluation/score/ground_truth.h"

namespace retina {
namespace {

constexpr const char* kExportedBy = "exported by coco-pack --inspect --export-annotations";

Instances classes_of_images(const ShardSet& set) {
  Instances out{.categories = set.manifest().categories};
  for (const IndexEntry& entry : set.index()) {
    out.images.push_back({.id = entry.image_id,
                          .file_name = entry.file_name,
                          .width = entry.width,
                          .height = entry.height});
    const double width = entry.width, height = entry.height;
    const auto label = static_cast<std::size_t>(entry.labels.at(0));
    out.annotations.push_back({.id = entry.image_id,
                               .image_id = entry.image_id,
                               .category_id = out.categories.at(label).id,
                               .bbox = {0, 0, width, height},
                               .area = width * height});
  }
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(out.images.begin(), out.images.end(), by_id);
  std::sort(out.annotations.begin(), out.annotations.end(), by_id);
  return out;
}

}  // namespace

Instances exported_instances(const ShardSet& set) {
  const bool has_boxes = set.manifest().task == Task::kDetection;
  return has_boxes ? ground_truth_of(set) : classes_of_images(set);
}

void check_may_export(const std::string& path) {
  // As we write it: what another program has changed and saved, with its own spaces, is not ours.
  check_may_replace(path, cat(R"({"info":{"description":")", kExportedBy, '"'),
                    "--export-annotations");
}

void export_annotations(const ShardSet& set, const std::string& path) {
  write_file_atomically(path, instances_to_json(exported_instances(set), kExportedBy));
}

}  // namespace retina
