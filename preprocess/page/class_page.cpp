#include "preprocess/page/class_page.h"

#include <algorithm>
#include <numeric>

#include "preprocess/page/page_parts.h"
#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::int64_t kFewImages = 20;  // a class with fewer is named
// Between the largest class and the smallest one that has images.
constexpr double kUneven = 10;

// What several parts of the page need.
struct ClassFindings {
  std::vector<std::size_t> by_count{};  // labels, most images first
  std::size_t few = 0;                  // classes with fewer than kFewImages
  std::vector<std::vector<std::size_t>> identical{};
  std::size_t contradictory = 0;  // groups of them whose classes differ
};

std::int64_t images_of(const DataPageInput& input, std::size_t label) {
  return input.facts.images_of_class()[label];
}

ClassFindings class_facts(const DataPageInput& input) {
  const auto& counts = input.facts.images_of_class();
  ClassFindings found;
  found.by_count.resize(counts.size());
  std::iota(found.by_count.begin(), found.by_count.end(), std::size_t{0});
  std::stable_sort(found.by_count.begin(), found.by_count.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  found.few = static_cast<std::size_t>(std::count_if(
      counts.begin(), counts.end(), [](std::int64_t count) { return count < kFewImages; }));
  found.identical = input.facts.identical_images();
  for (const auto& group : found.identical) {
    found.contradictory += truth_differs(input.facts, group) ? 1 : 0;
  }
  return found;
}

// Images of the smallest class that has any.
std::int64_t fewest_images(const DataPageInput& input, const ClassFindings& found) {
  for (auto label = found.by_count.rbegin(); label != found.by_count.rend(); ++label) {
    if (images_of(input, *label) > 0) return images_of(input, *label);
  }
  return 0;
}

std::vector<Figure> class_metrics_of(const DataPageInput& input, const ClassFindings& found) {
  const ManifestCounts& counts = input.manifest.counts;
  const std::int64_t repeated = repeated_images(found.identical);
  const std::int64_t most = found.by_count.empty() ? 0 : images_of(input, found.by_count.front());
  return {
      {"images", grouped(counts.images), "each with one class"},
      {"classes", cat(found.by_count.size()),
       found.few == 0 ? cat("all with ", kFewImages, " images or more")
                      : cat(found.few, " with fewer than ", kFewImages, " images")},
      {"images of a class", cat(grouped(fewest_images(input, found)), " to ", grouped(most)),
       "smallest to largest"},
      {"left out", grouped(counts.quarantined), "images in quarantine"},
      {"identical images", grouped(repeated),
       repeated == 0
           ? "all differ"
           : cat("repeat one of ", grouped(static_cast<std::int64_t>(found.identical.size())))},
      {"under two classes", grouped(static_cast<std::int64_t>(found.contradictory)),
       "images that are"},
  };
}

// The smallest classes, first the empty ones.
Finding few_images_finding(const DataPageInput& input, const ClassFindings& found) {
  std::string names;
  for (std::size_t i = 0; i < std::min(found.few, kNamedClasses); ++i) {
    const std::size_t label = found.by_count[found.by_count.size() - 1 - i];
    names += cat(i == 0 ? "" : ", ", escaped(input.manifest.categories[label].name), " (",
                 images_of(input, label), ")");
  }
  return {.text =
              cat(found.few == 1 ? "1 class has" : cat(found.few, " classes have"), " fewer than ",
                  kFewImages, " images: ", names, found.few > kNamedClasses ? " and others" : "",
                  ". Expect low accuracy there; collect more, merge classes or leave them "
                  "out.")};
}

std::vector<Finding> class_findings(const DataPageInput& input, const ClassFindings& found) {
  std::vector<Finding> list;
  if (input.manifest.counts.quarantined > 0) list.push_back(quarantine_finding(input));
  if (found.contradictory > 0) {
    list.push_back({.text = cat(grouped(static_cast<std::int64_t>(found.contradictory), "image is",
                                        "images are"),
                                " in the set under different classes: no classifier can get all "
                                "of these right. Remove the wrong copies; the table below names "
                                "them.")});
  }
  if (found.few > 0) list.push_back(few_images_finding(input, found));
  const std::int64_t fewest = fewest_images(input, found);
  if (fewest > 0 && static_cast<double>(images_of(input, found.by_count.front())) >=
                        kUneven * static_cast<double>(fewest)) {
    list.push_back(
        {.text = cat("The largest class has ", grouped(images_of(input, found.by_count.front())),
                     " images, the smallest ", grouped(fewest),
                     ". Overall accuracy says little about the small ones: look at each class.")});
  }
  if (found.identical.size() > found.contradictory) {
    list.push_back(
        {.text = cat(grouped(repeated_images(found.identical), "image repeats", "images repeat"),
                     " another one byte for byte. Make sure that no image is in both "
                     "the training and the validation set.")});
  }
  if (list.empty()) list.push_back({.text = "Nothing stands out."});
  return list;
}

Histogram images_histogram(const DataPageInput& input, const ClassFindings& found) {
  const std::size_t class_count = found.by_count.size();
  const std::size_t drawn = std::min(class_count, kDrawnClasses);
  Histogram histogram{
      .title = "Images of each class", .y_label = "images", .wide = drawn > kClassesSideBySide};
  std::int64_t images = 0;
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::size_t label = found.by_count[i];
    const std::string name = escaped(input.manifest.categories[label].name);
    const std::int64_t count = images_of(input, label);
    images += count;
    histogram.bars.push_back({.label = name,
                              .detail = cat(name, ": ", grouped(count, "image", "images")),
                              .count = static_cast<double>(count)});
  }
  histogram.x_label =
      drawn == class_count
          ? std::string("classes, most images first")
          : cat("the ", drawn, " largest of ", grouped(static_cast<std::int64_t>(class_count)),
                " classes, with ", percent(share(images, input.manifest.counts.images)),
                " of the images");
  return histogram;
}

Table images_table(const DataPageInput& input, const ClassFindings& found) {
  Table table{.title = "Classes, most images first",
              .columns = {"class", "label", "id", "images", "of all"},
              .note = cat("The bar is relative to the largest class. ▲: fewer than ", kFewImages,
                          " images."),
              .bar_column = 3,
              .wide = true};
  for (const std::size_t label : found.by_count) {
    const std::int64_t count = images_of(input, label);
    const Category& category = input.manifest.categories[label];
    table.rows.push_back({cat(escaped(category.name), count < kFewImages ? " ▲" : ""), cat(label),
                          cat(category.id), grouped(count),
                          percent(share(count, input.manifest.counts.images))});
    table.bars.push_back(share(count, images_of(input, found.by_count.front())));
  }
  return table;
}

}  // namespace

std::string render_class_page(const DataPageInput& input) {
  const ClassFindings found = class_facts(input);
  Report report{.title = kDataPageTitle,
                .subtitle = cat(
                    grouped(input.manifest.counts.images, "image", "images"), ", ",
                    grouped(static_cast<std::int64_t>(found.by_count.size()), "class", "classes"))};
  report.metrics = class_metrics_of(input, found);
  report.findings = class_findings(input, found);
  report.histograms = {images_histogram(input, found), image_size_histogram(input.facts),
                       aspect_histogram(input.facts)};
  report.tables_title = "Details";
  report.tables = {images_table(input, found), size_table(input.facts)};
  if (!found.identical.empty()) report.tables.push_back(identical_table(input, found.identical));
  if (!input.quarantined.empty()) report.tables.push_back(quarantine_table(input));
  report.galleries = {
      sample_gallery(input, "Images with their classes, chosen by a hash of their ids.")};
  return render_report(report);
}

}  // namespace retina
