#include <iterator>

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
  ClassSizes counts{};      // of images
  std::int64_t fewest = 0;  // images of the smallest class that has any
  Repeats repeats{};
};

ClassFindings class_facts(const DataPageInput& input) {
  ClassFindings found{.counts = sorted_counts({.of_label = input.facts.images_of_class(),
                                               .enough = kFewImages,
                                               .one = "image",
                                               .many = "images",
                                               .whole = "images"}),
                      .repeats = find_repeats(input.facts)};
  for (const std::size_t label : found.counts.by_count) {
    if (found.counts.of_label[label] > 0) found.fewest = found.counts.of_label[label];
  }
  return found;
}

std::vector<Headline> class_metrics_of(const DataPageInput& input, const ClassFindings& found) {
  return {
      {"images", grouped(input.manifest.counts.images), "each with one class"},
      classes_headline(found.counts),
      {"images of a class", cat(grouped(found.fewest), " to ", grouped(found.counts.most())),
       "smallest to largest"},
      quarantine_headline(input),
      repeats_headline(found.repeats),
      {"under two classes", grouped(found.repeats.contradictory), "images that are"},
  };
}

std::vector<Finding> class_findings(const DataPageInput& input, const ClassFindings& found) {
  std::vector<Finding> list = noted_findings(input);
  if (input.manifest.counts.quarantined > 0) list.push_back(quarantine_finding(input));
  if (found.repeats.contradictory > 0) {
    list.push_back({.text = cat(grouped(found.repeats.contradictory, "image is", "images are"),
                                " in the set under different classes: no classifier can get all "
                                "of these right. Remove the wrong copies; the table below names "
                                "them.")});
  }
  if (found.counts.few > 0) {
    list.push_back(
        few_finding(input, found.counts,
                    "Expect low accuracy there; collect more, merge classes or leave them out."));
  }
  if (found.fewest > 0 &&
      static_cast<double>(found.counts.most()) >= kUneven * static_cast<double>(found.fewest)) {
    list.push_back(
        {.text = cat("The largest class has ", grouped(found.counts.most()),
                     " images, the smallest ", grouped(found.fewest),
                     ". Overall accuracy says little about the small ones: look at each class.")});
  }
  if (std::ssize(found.repeats.groups) > found.repeats.contradictory) {
    list.push_back(repeats_finding(found.repeats));
  }
  if (list.empty()) list.push_back({.text = "Nothing stands out."});
  return list;
}

Table images_table(const DataPageInput& input, const ClassFindings& found) {
  Table table{.title = "Classes, most images first",
              .columns = {"class", "label", "id", "images", "of all"},
              .note = cat("The bar is relative to the largest class. ▲: fewer than ", kFewImages,
                          " images."),
              .bar_column = 3,
              .wide = true};
  for (const std::size_t label : found.counts.by_count) {
    const std::int64_t count = found.counts.of_label[label];
    const Category& category = input.manifest.categories[label];
    table.rows.push_back({cat(escaped(category.name), count < kFewImages ? " ▲" : ""), cat(label),
                          cat(category.id), grouped(count),
                          percent(share(count, input.manifest.counts.images))});
    table.bars.push_back(share(count, found.counts.most()));
  }
  return table;
}

}  // namespace

std::string render_class_page(const DataPageInput& input) {
  const ClassFindings found = class_facts(input);
  Report report{.title = kDataPageTitle,
                .subtitle = cat(grouped(input.manifest.counts.images, "image", "images"), ", ",
                                grouped(static_cast<std::int64_t>(found.counts.by_count.size()),
                                        "class", "classes"))};
  report.metrics = class_metrics_of(input, found);
  report.findings = class_findings(input, found);
  report.histograms = {class_histogram(input, found.counts, input.manifest.counts.images),
                       image_size_histogram(input.facts), aspect_histogram(input.facts)};
  report.tables_title = "Details";
  report.tables = {images_table(input, found), size_table(input.facts)};
  if (!found.repeats.groups.empty()) {
    report.tables.push_back(identical_table(input, found.repeats));
  }
  if (!input.quarantined.empty()) report.tables.push_back(quarantine_table(input));
  report.galleries = {
      sample_gallery(input, "Images with their classes, chosen by a hash of their ids.")};
  return render_report(report);
}

}  // namespace retina
