#include "preprocess/page/data_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "preprocess/page/page_parts.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/report/report.h"

namespace retina {
namespace {

constexpr std::int64_t kFewBoxes = 50;                   // a class with fewer is named
constexpr double kSmallSidePx = 32, kMediumSidePx = 96;  // COCO's limits

std::string sizes_text(const std::vector<double>& sizes) {
  std::string text;
  for (const double size : sizes) text += cat(text.empty() ? "" : ",", shortest(size));
  return text;
}

// Where a value lies among bars of equal growth.
double place_on_log_axis(const Binned& bins, double value) {
  const double growth = std::log(bins.edges[1] / bins.edges[0]);
  return std::log(value / bins.edges[0]) / growth;
}

Histogram box_size_histogram(const DataFacts& facts) {
  Binned bins(powers(1, 16384, std::sqrt(2.0)));
  for (const BoxFacts& box : facts.boxes()) bins.add(box.side_px);
  bins.trim();
  Histogram histogram{.title = "Box sizes",
                      .x_label = "square root of the area, px (log scale)",
                      .y_label = "boxes; small and medium end at 32 and 96 px as in COCO",
                      .labels_edges = true};
  add_bars(histogram, bins, " px");
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    const double octave = std::log2(bins.edges[i]);
    if (std::abs(octave - std::round(octave)) < 0.01) {
      histogram.bars[i].label = fixed(bins.edges[i], 0);
    }
  }
  for (const auto& [limit, name] : {std::pair(kSmallSidePx, "32"), {kMediumSidePx, "96"}}) {
    const double place = place_on_log_axis(bins, limit);
    if (place < 0 || place > static_cast<double>(bins.counts.size())) continue;
    histogram.marks.push_back({.place = place, .text = name});
  }
  return histogram;
}

// What a record is called.
const char* records_word(const DataPageInput& input) {
  return input.manifest.options.tile ? "tiles" : "images";
}

Histogram boxes_per_image_histogram(const DataPageInput& input) {
  const DataFacts& facts = input.facts;
  // 0 and the first numbers alone, then by half octaves.
  std::vector<double> edges = {0,  1,  2,   3,   4,   5,   6,   8,   11,   16,   23,   32, 46,
                               64, 91, 128, 181, 256, 363, 512, 725, 1025, 1449, 2049, 1e9};
  Binned bins(edges);
  for (const ImageFacts& image : facts.images()) bins.add(image.box_count);
  while (bins.counts.size() > 1 && bins.counts.back() == 0) {
    bins.counts.pop_back(), bins.edges.pop_back();
  }
  Histogram histogram{.title = input.manifest.options.tile ? "Boxes per tile" : "Boxes per image",
                      .x_label = "boxes to train on (growing steps from 6 on)",
                      .y_label = records_word(input)};
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    const std::int64_t low = std::llround(bins.edges[i]),
                       high = std::llround(bins.edges[i + 1]) - 1;
    const bool last = high > 1000000;
    const std::string name = last          ? cat(low, " or more")
                             : low == high ? cat(low)
                                           : cat(low, " to ", high);
    histogram.bars.push_back({.label = cat(low),
                              .detail = cat(name, " boxes: ", grouped(bins.counts[i])),
                              .count = static_cast<double>(bins.counts[i])});
  }
  return histogram;
}

struct ClassFacts {
  std::int64_t boxes = 0, images = 0, uncovered = 0;
  float median_px = 0;
};

// What several parts of the page need.
struct Findings {
  std::vector<ClassFacts> classes{};
  ClassSizes counts{};    // of boxes
  Uncovered uncovered{};  // with the default anchors
  AnchorProposal proposal{};
  Repeats repeats{};
  std::size_t small_boxes = 0;  // COCO's
};

Findings find(const DataPageInput& input) {
  const DataFacts& facts = input.facts;
  Findings found;
  found.classes.resize(input.manifest.categories.size());
  // Which boxes the default anchors cover.
  const AnchorCoverage coverage(default_anchor_sizes());
  std::vector<std::vector<float>> sides(found.classes.size());
  std::vector<Fit> fits(facts.boxes().size());
  constexpr std::size_t kBlock = 4096;
  for_each_parallel(
      (fits.size() + kBlock - 1) / kBlock, input.thread_count, [&](std::size_t block) {
        for (std::size_t i = block * kBlock; i < std::min(fits.size(), (block + 1) * kBlock); ++i) {
          fits[i] = fit_of(facts.box_sizes()[i], coverage);
        }
      });
  // Sums over all boxes and over each class.
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const BoxFacts& box = facts.boxes()[i];
    const auto label = static_cast<std::size_t>(box.label);
    found.uncovered.small += fits[i] == Fit::kSmall ? 1 : 0;
    found.uncovered.large += fits[i] == Fit::kLarge ? 1 : 0;
    found.uncovered.thin += fits[i] == Fit::kThin ? 1 : 0;
    found.small_boxes += box.side_px < kSmallSidePx ? 1 : 0;
    if (label >= found.classes.size()) continue;
    ++found.classes[label].boxes;
    found.classes[label].uncovered += fits[i] == Fit::kCovered ? 0 : 1;
    sides[label].push_back(box.side_px);
  }
  for (std::size_t label = 0; label < sides.size(); ++label) {
    found.classes[label].images = facts.images_of_class()[label];
    if (sides[label].empty()) continue;
    const auto middle = sides[label].begin() + static_cast<std::ptrdiff_t>(sides[label].size() / 2);
    std::nth_element(sides[label].begin(), middle, sides[label].end());
    found.classes[label].median_px = *middle;
  }
  found.counts = {.enough = kFewBoxes, .one = "box", .many = "boxes", .whole = "boxes to train on"};
  for (const ClassFacts& one : found.classes) found.counts.of_label.push_back(one.boxes);
  found.counts = sorted_counts(std::move(found.counts));
  found.proposal = propose_anchors(facts.box_sizes(), input.thread_count);
  found.repeats = find_repeats(facts);
  return found;
}

Headline trainable_headline(const ManifestCounts& counts) {
  const std::string partial = counts.partial > 0 ? cat(grouped(counts.partial), " partial, ") : "";
  return {"boxes to train on", grouped(counts.trainable),
          counts.crowds + counts.degenerate + counts.partial == 0
              ? "all there are"
              : cat("and ", partial, grouped(counts.crowds), " crowds, ",
                    grouped(counts.degenerate), " degenerate")};
}

std::vector<Headline> image_headlines(const DataPageInput& input) {
  const ManifestCounts& counts = input.manifest.counts;
  const std::string without = cat(grouped(counts.images_without_boxes), " without boxes");
  if (!input.manifest.options.tile) {
    return {{"images", grouped(counts.images), without}, trainable_headline(counts)};
  }
  return {{"tiles", grouped(counts.images), without},
          {"images", grouped(counts.tiled_images),
           cat("with ", grouped(counts.whole_boxes, "box", "boxes"))},
          trainable_headline(counts),
          {"cut boxes", percent(share(counts.cut, counts.trainable)),
           "of those to train on end at a tile's edge"}};
}

std::vector<Headline> metrics(const DataPageInput& input, const Findings& found) {
  const ManifestCounts& counts = input.manifest.counts;
  std::vector<Headline> list = image_headlines(input);
  for (const Headline& one : std::vector<Headline>{
           classes_headline(found.counts),
           quarantine_headline(input),
           repeats_headline(found.repeats),
           {"small boxes",
            percent(share(static_cast<std::int64_t>(found.small_boxes), counts.trainable)),
            "below 32² px, as in COCO"},
           {"no anchor covers", percent(share(found.uncovered.all(), counts.trainable)),
            cat("of the boxes, ", size_of_boxes_text(input.manifest))},
       }) {
    list.push_back(one);
  }
  return list;
}

std::vector<Finding> findings(const DataPageInput& input, const Findings& found) {
  const ManifestCounts& counts = input.manifest.counts;
  std::vector<Finding> list = noted_findings(input);
  if (counts.quarantined > 0) list.push_back(quarantine_finding(input));
  if (found.repeats.contradictory > 0) {
    list.push_back({.text = cat(grouped(found.repeats.contradictory, "image is", "images are"),
                                " in the set several times with different boxes: some of these "
                                "annotations are wrong or incomplete.")});
  }
  std::string advice = tile_advice(input.facts, input.manifest, found.uncovered);
  if (!advice.empty()) {
    advice.front() = 'I';
    list.push_back({.text = cat(advice, ".")});
  }
  const std::string lost = lost_in_tiles(input.facts, input.manifest.categories);
  if (!lost.empty()) list.push_back({.text = cat(lost, ".")});
  // Anchors: better sizes, or the advice that helps where there are none.
  const double uncovered = share(found.uncovered.all(), counts.trainable);
  const double proposed = share(found.proposal.uncovered.all(), counts.trainable);
  if (uncovered >= kWorthAWord && found.proposal.sizes != default_anchor_sizes()) {
    list.push_back(
        {.text = cat("No default anchor covers ", percent(uncovered),
                     " of the boxes (IoU below 0.4) with ", size_of_boxes_text(input.manifest),
                     ", and training "
                     "barely learns them. These options of retina-train leave ",
                     percent(proposed), ":"),
         .options = cat("--anchor-sizes ", sizes_text(found.proposal.sizes))});
  } else if (uncovered >= kWorthAWord) {
    list.push_back(
        {.text = cat("No anchor covers ", percent(uncovered), " of the boxes (IoU below 0.4) with ",
                     size_of_boxes_text(input.manifest),
                     ", and no "
                     "other --anchor-sizes would do better.",
                     found.uncovered.small > found.uncovered.thin
                         ? " A larger --min-side makes small boxes larger."
                         : "")});
  }
  // Classes, copies, boxes without an area.
  if (found.counts.few > 0) {
    list.push_back(few_finding(
        input, found.counts, "Expect low AP there; label more, merge classes or leave them out."));
  }
  if (std::ssize(found.repeats.groups) > found.repeats.contradictory) {
    list.push_back(repeats_finding(found.repeats));
  }
  if (counts.degenerate > 0) {
    list.push_back({.text = cat(grouped(counts.degenerate, "box has", "boxes have"),
                                " no width or height inside the image; training ignores them.")});
  }
  if (list.empty()) list.push_back({.text = "Nothing stands out."});
  return list;
}

Table class_table(const DataPageInput& input, const Findings& found) {
  Table table{.title = "Classes, most boxes first",
              .columns = {"class", "id", records_word(input), "boxes", "of all", "median size, px",
                          "no anchor covers"},
              .note = cat("Boxes to train on: without crowds and degenerate ones. The bar is "
                          "relative to the largest class. ▲: fewer than ",
                          kFewBoxes, " boxes."),
              .bar_column = 3,
              .wide = true};
  for (const std::size_t label : found.counts.by_count) {
    const ClassFacts& one = found.classes[label];
    const Category& category = input.manifest.categories[label];
    table.rows.push_back({cat(escaped(category.name), one.boxes < kFewBoxes ? " ▲" : ""),
                          cat(category.id), grouped(one.images), grouped(one.boxes),
                          percent(share(one.boxes, input.manifest.counts.trainable)),
                          one.boxes > 0 ? fixed(one.median_px, 0) : "",
                          one.boxes > 0 ? percent(share(one.uncovered, one.boxes)) : ""});
    table.bars.push_back(share(one.boxes, found.counts.most()));
  }
  return table;
}

Table anchor_table(const DataPageInput& input, const Findings& found) {
  Table table{
      .title = "Boxes that no anchor covers",
      .columns = {"--anchor-sizes", "all", "too small", "too large", "too thin"},
      .note =
          cat("Share of the boxes with an IoU below 0.4 with every anchor shape, ",
              size_of_boxes_text(input.manifest),
              input.manifest.options.tile ? ", as retina-train has them without --min-side" : "",
              ", wherever the box lies. No sizes cover boxes that are too thin.")};
  const auto add = [&](const std::vector<double>& sizes, const Uncovered& uncovered) {
    const std::int64_t all = input.manifest.counts.trainable;
    table.rows.push_back({sizes_text(sizes), percent(share(uncovered.all(), all)),
                          percent(share(uncovered.small, all)),
                          percent(share(uncovered.large, all)),
                          percent(share(uncovered.thin, all))});
  };
  add(default_anchor_sizes(), found.uncovered);
  if (found.proposal.sizes == default_anchor_sizes()) return table;
  add(found.proposal.sizes, found.proposal.uncovered);
  table.note +=
      " The second row leaves the fewest uncovered among ladders that begin at 16, 24, 32, 48 or "
      "64 px and grow by 1.5, 2 or 2.5 (within 0.2 %, the nearest to the default).";
  return table;
}

}  // namespace

std::string render_data_page(const DataPageInput& input) {
  if (input.manifest.task == Task::kClassification) return render_class_page(input);
  const Findings found = find(input);
  const ManifestCounts& counts = input.manifest.counts;
  const bool has_tiles = input.manifest.options.tile.has_value();
  Report report{.title = kDataPageTitle,
                .subtitle = cat(
                    has_tiles ? cat(grouped(counts.images, "tile", "tiles"), " of ",
                                    grouped(counts.tiled_images, "image", "images"))
                              : grouped(counts.images, "image", "images"),
                    ", ", grouped(counts.boxes, "box", "boxes"), ", ",
                    grouped(static_cast<std::int64_t>(found.classes.size()), "class", "classes"))};
  report.metrics = metrics(input, found);
  report.findings = findings(input, found);
  report.histograms = {class_histogram(input, found.counts, counts.trainable),
                       box_size_histogram(input.facts), boxes_per_image_histogram(input)};
  report.tables_title = "Details";
  report.tables = {class_table(input, found), anchor_table(input, found)};
  if (!has_tiles) {  // which all have one size
    report.histograms.push_back(image_size_histogram(input.facts));
    report.histograms.push_back(aspect_histogram(input.facts));
    report.tables.push_back(size_table(input.facts));
  }
  if (!found.repeats.groups.empty()) {
    report.tables.push_back(identical_table(input, found.repeats));
  }
  if (!input.quarantined.empty()) report.tables.push_back(quarantine_table(input));
  report.galleries = {sample_gallery(
      input, has_tiles ? "Tiles with boxes and their places, chosen by a hash. Crowds and partial "
                         "boxes are dashed."
                       : "Images with boxes, chosen by a hash of their ids. Crowds are dashed.")};
  return render_report(report);
}

bool is_data_page(const std::string& path) {
  constexpr std::size_t kHeadBytes = 1024;
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  return read_start(path, kHeadBytes).find(cat("<title>", kDataPageTitle, "</title>")) !=
         std::string::npos;
}

}  // namespace retina
