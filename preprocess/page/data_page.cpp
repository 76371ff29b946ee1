#include "preprocess/page/data_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/data/record_image.h"
#include "shared/image/draw.h"
#include "shared/image/resize.h"
#include "shared/report/report.h"
#include "shared/shard/set_notes.h"

namespace retina {
namespace {

constexpr const char* kTitle = "Data set";
constexpr std::int64_t kFewBoxes = 50, kFewImages = 20;  // a class with fewer is named
constexpr float kSmallSidePx = 32;                       // COCO's limit
constexpr std::size_t kDrawnClasses = 80, kClassesSideBySide = 8, kNamedClasses = 12;
constexpr std::size_t kListedGroups = 50, kNamesOfGroup = 6, kListedQuarantined = 20;
constexpr int kSampleSidePx = 480;

// Returns a part of the whole; 0 of nothing.
double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double value) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  return cat(fixed(value * 100, 1), " %");
}

// Returns 118287 as "118,287".
std::string grouped(std::int64_t count) {
  std::string digits = cat(count);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string grouped(std::int64_t count, const char* one, const char* many) {
  return cat(grouped(count), " ", count == 1 ? one : many);
}

// Facts that several parts of the page need. Classes are counted in boxes to train on; in a set for
// classification, in images.
struct Findings {
  const char *one = "box", *many = "boxes";  // of what is counted
  std::int64_t enough = kFewBoxes;
  std::vector<std::int64_t> of_label{};
  std::vector<std::size_t> by_count{};  // labels, the largest first
  std::size_t few = 0;                  // classes with fewer than `enough`
  std::int64_t small_boxes = 0;         // COCO's
  Uncovered uncovered{};                // with the default anchors
  AnchorProposal proposal{};
  std::vector<std::vector<std::size_t>> repeats{};  // groups of identical images
  std::int64_t repeat_count = 0;                    // images that repeat another one
  std::int64_t contradictory = 0;  // groups, the first ones, whose boxes or classes differ
};

bool is_classified(const DataPageInput& input) {
  return input.manifest.task == Task::kClassification;
}

// Returns true if the boxes or classes of a group of identical images differ.
bool truth_differs(const DataFacts& facts, const std::vector<std::size_t>& group) {
  return std::any_of(group.begin(), group.end(), [&](std::size_t place) {
    return facts.images()[place].truth_xxh3 != facts.images()[group.front()].truth_xxh3;
  });
}

void count_classes(const DataPageInput& input, Findings& found) {
  if (is_classified(input)) {
    found.one = "image";
    found.many = "images";
    found.enough = kFewImages;
    found.of_label = input.facts.images_of_class();
  } else {
    found.of_label.resize(input.manifest.categories.size());
    for (const BoxFacts& box : input.facts.boxes()) {
      const auto label = static_cast<std::size_t>(box.label);
      if (label < found.of_label.size()) ++found.of_label[label];
      found.small_boxes += box.side_px < kSmallSidePx ? 1 : 0;
    }
  }
  const auto& of_label = found.of_label;
  found.by_count.resize(of_label.size());
  std::iota(found.by_count.begin(), found.by_count.end(), std::size_t{0});
  std::stable_sort(found.by_count.begin(), found.by_count.end(),
                   [&](std::size_t a, std::size_t b) { return of_label[a] > of_label[b]; });
  found.few = static_cast<std::size_t>(std::count_if(
      of_label.begin(), of_label.end(), [&](std::int64_t count) { return count < found.enough; }));
}

Findings find(const DataPageInput& input) {
  Findings found;
  count_classes(input, found);
  found.uncovered = count_uncovered(input.facts.box_sizes(), default_anchor_sizes());
  found.proposal = propose_anchors(input.facts.box_sizes(), input.thread_count);
  found.repeats = input.facts.identical_images();
  const auto same = std::stable_partition(
      found.repeats.begin(), found.repeats.end(),
      [&](const std::vector<std::size_t>& group) { return truth_differs(input.facts, group); });
  found.contradictory = same - found.repeats.begin();
  for (const std::vector<std::size_t>& group : found.repeats) {
    found.repeat_count += std::ssize(group) - 1;
  }
  return found;
}

std::vector<Headline> metrics_of(const DataPageInput& input, const Findings& found) {
  const ManifestCounts& counts = input.manifest.counts;
  const bool has_tiles = input.manifest.options.tile.has_value();
  std::vector<Headline> list{{has_tiles ? "tiles" : "images", grouped(counts.images),
                              is_classified(input)
                                  ? "each with one class"
                                  : cat(grouped(counts.images_without_boxes), " without boxes")}};
  if (has_tiles) {
    list.push_back({"images", grouped(counts.tiled_images),
                    cat("with ", grouped(counts.whole_boxes, "box", "boxes"))});
  }
  if (!is_classified(input)) {
    list.push_back({"boxes to train on", grouped(counts.trainable),
                    cat("and ", grouped(counts.partial), " partial, ", grouped(counts.crowds),
                        " crowds, ", grouped(counts.degenerate), " degenerate")});
  }
  list.push_back({"classes", grouped(std::ssize(found.by_count)),
                  cat(found.few, " with fewer than ", found.enough, " ", found.many)});
  list.push_back({"quarantined", grouped(counts.quarantined), "images that are not used"});
  list.push_back({"identical images", grouped(found.repeat_count),
                  found.repeats.empty()
                      ? "all differ"
                      : cat("repeat one of ", grouped(std::ssize(found.repeats)))});
  if (is_classified(input)) return list;
  // How well the boxes suit the network.
  if (has_tiles) {
    list.push_back({"cut boxes", percent(share(counts.cut, counts.trainable)),
                    "of those to train on end at a tile's edge"});
  }
  list.push_back({"small boxes", percent(share(found.small_boxes, counts.trainable)),
                  "below 32² px, as in COCO"});
  list.push_back({"no anchor covers", percent(share(found.uncovered.all(), counts.trainable)),
                  cat("of the boxes, ", size_of_boxes_text(input.manifest))});
  return list;
}

// Returns better anchor sizes, or the advice that helps where there are none.
std::optional<Finding> anchor_finding(const DataPageInput& input, const Findings& found) {
  const std::int64_t all = input.manifest.counts.trainable;
  const double uncovered = share(found.uncovered.all(), all);
  if (uncovered < kReportedShare) return std::nullopt;
  const std::string begin =
      cat("No default anchor covers ", percent(uncovered), " of the boxes (IoU below 0.4) with ",
          size_of_boxes_text(input.manifest), ", and ");
  if (found.proposal.sizes != default_anchor_sizes()) {
    return Finding{.text = cat(begin, "training barely learns them. These sizes leave ",
                               percent(share(found.proposal.uncovered.all(), all)), ":"),
                   .options = cat("--anchor-sizes ", anchor_sizes_text(found.proposal.sizes))};
  }
  return Finding{.text = cat(begin, "no other --anchor-sizes would do better.",
                             found.uncovered.small > found.uncovered.thin
                                 ? " A larger --min-side makes small boxes larger."
                                 : "")};
}

Finding few_finding(const DataPageInput& input, const Findings& found) {
  std::string names;
  for (std::size_t i = 0; i < std::min(found.few, kNamedClasses); ++i) {
    const std::size_t label = found.by_count[found.by_count.size() - 1 - i];
    names += cat(i == 0 ? "" : ", ", escaped(input.manifest.categories[label].name), " (",
                 found.of_label[label], ")");
  }
  return {.text = cat(counted(found.few, "class has", "classes have"), " fewer than ", found.enough,
                      " ", found.many, ": ", names, found.few > kNamedClasses ? " and others" : "",
                      ". Expect poor results there; label more, merge classes or leave them out.")};
}

std::vector<Finding> findings_of(const DataPageInput& input, const Findings& found) {
  const ManifestCounts& counts = input.manifest.counts;
  std::vector<Finding> list;
  const auto add = [&](const auto&... text) { list.push_back({.text = cat(text...)}); };
  // What makes annotations or images doubtful comes first.
  for (const std::string& note : set_notes(input.manifest)) add(note, ".");
  if (counts.quarantined > 0) {
    add(grouped(counts.quarantined, "image is", "images are"), " quarantined (",
        kinds_text(input.quarantined),
        "): ", percent(share(counts.quarantined, counts.quarantined + counts.source_images())),
        " of all. Neither training nor evaluation sees them; the table below has the reasons.");
  }
  if (found.contradictory > 0) {
    add(grouped(found.contradictory, "image is", "images are"),
        " in the set several times with different ", is_classified(input) ? "classes" : "boxes",
        ": some of these annotations are wrong or incomplete.");
  }
  // Boxes that the network would not learn, with the options that help.
  if (std::string advice = tile_advice(input.facts, input.manifest, found.uncovered);
      !advice.empty()) {
    advice.front() = 'I';
    add(advice, ".");
  }
  if (const std::string lost = lost_in_tiles(input.facts, input.manifest.categories);
      !lost.empty()) {
    add(lost, ".");
  }
  if (auto anchors = anchor_finding(input, found)) list.push_back(std::move(*anchors));
  // Classes, copies, boxes without an area.
  if (found.few > 0) list.push_back(few_finding(input, found));
  if (std::ssize(found.repeats) > found.contradictory) {
    add(grouped(found.repeat_count, "image repeats", "images repeat"),
        " another one byte for byte. Make sure that no image is in both the training and the "
        "validation set.");
  }
  if (counts.degenerate > 0) {
    add(grouped(counts.degenerate, "box has", "boxes have"),
        " no width or height inside the image; training ignores them.");
  }
  if (list.empty()) add("Nothing stands out.");
  return list;
}

// Draws the largest classes.
Histogram class_histogram(const DataPageInput& input, const Findings& found) {
  const std::size_t class_count = found.by_count.size();
  const std::size_t drawn = std::min(class_count, kDrawnClasses);
  Histogram histogram{.title = "Classes",
                      .x_label = drawn == class_count
                                     ? cat("classes, most ", found.many, " first")
                                     : cat("the ", drawn, " largest of ",
                                           grouped(std::ssize(found.by_count)), " classes"),
                      .y_label = found.many,
                      .wide = drawn > kClassesSideBySide};
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::size_t label = found.by_count[i];
    const std::string name = escaped(input.manifest.categories[label].name);
    const std::int64_t count = found.of_label[label];
    histogram.bars.push_back({.label = name,
                              .detail = cat(name, ": ", grouped(count, found.one, found.many)),
                              .count = static_cast<double>(count)});
  }
  return histogram;
}

// Draws square roots of areas on a log axis, two bars an octave.
Histogram size_histogram(const char* title, const char* counted, const std::vector<double>& sizes) {
  Histogram histogram{.title = title,
                      .x_label = "square root of the area, px (log scale)",
                      .y_label = counted,
                      .labels_edges = true};
  std::map<int, std::int64_t> count_of;  // by half octaves
  for (const double size : sizes) {
    ++count_of[static_cast<int>(std::floor(2 * std::log2(std::max(size, 1.0))))];
  }
  if (count_of.empty()) return histogram;
  for (int bar = count_of.begin()->first; bar <= count_of.rbegin()->first; ++bar) {
    const auto edge = [](int at) { return fixed(std::exp2(at / 2.0), 0); };
    histogram.bars.push_back(
        {.label = edge(bar),
         .detail = cat(edge(bar), " to ", edge(bar + 1), " px: ", grouped(count_of[bar])),
         .count = static_cast<double>(count_of[bar])});
  }
  return histogram;
}

Table class_table(const DataPageInput& input, const Findings& found) {
  Table table{.title = "Classes",
              .columns = {"class", "id", found.many, "of all"},
              .note = cat("The bar is relative to the largest class. ▲: fewer than ", found.enough,
                          " ", found.many, "."),
              .bar_column = 2,
              .wide = true};
  const std::int64_t all =
      std::accumulate(found.of_label.begin(), found.of_label.end(), std::int64_t{0});
  for (const std::size_t label : found.by_count) {
    const std::int64_t count = found.of_label[label];
    const Category& category = input.manifest.categories[label];
    table.rows.push_back({cat(escaped(category.name), count < found.enough ? " ▲" : ""),
                          cat(category.id), grouped(count), percent(share(count, all))});
    table.bars.push_back(share(count, found.of_label[found.by_count.front()]));
  }
  return table;
}

// Lists the groups whose boxes or classes differ first.
Table identical_table(const DataPageInput& input, const Findings& found) {
  Table table{.title = "Identical images",
              .columns = {"images (id)", is_classified(input) ? "classes" : "boxes"},
              .note = cat("The same image, byte for byte",
                          found.repeats.size() > kListedGroups ? "; the first groups." : "."),
              .wide = true};
  for (std::size_t i = 0; i < std::min(found.repeats.size(), kListedGroups); ++i) {
    const std::vector<std::size_t>& group = found.repeats[i];
    std::string names;
    for (std::size_t k = 0; k < std::min(group.size(), kNamesOfGroup); ++k) {
      const std::int64_t id = input.facts.images()[group[k]].image_id;
      names += cat(k == 0 ? "" : ", ", escaped(input.file_name(id)), " (", id, ")");
    }
    if (group.size() > kNamesOfGroup) names += cat(", ... ", group.size(), " in all");
    table.rows.push_back(
        {names, static_cast<std::int64_t>(i) < found.contradictory ? "differ" : "the same"});
  }
  return table;
}

Table quarantine_table(const DataPageInput& input) {
  Table table{.title = "Quarantined images",
              .columns = {"image", "id", "reason"},
              .note = cat("The first ones; ", kQuarantineFile, " lists all."),
              .text_column = 2,
              .wide = true};
  for (std::size_t i = 0; i < std::min(input.quarantined.size(), kListedQuarantined); ++i) {
    const QuarantinedImage& bad = input.quarantined[i];
    table.rows.push_back(
        {escaped(bad.file_name), cat(bad.image_id),
         cat(escaped(bad.reason, kWholeText), bad.hint.empty() ? "" : "; ", bad.hint)});
  }
  return table;
}

EmbeddedImage draw_sample(const DataPageInput& input, const SampleImage& sample) {
  const Record record{.image_id = sample.image_id,
                      .file_name = input.file_name(sample.image_id),
                      .width = sample.width,
                      .height = sample.height,
                      .encoding = sample.encoding,
                      .image = sample.image};
  JpegDecoder decoder;
  Image image;
  decode_image(record, "data page", decoder, image);
  // Made smaller before it is drawn on: lines and names stay readable.
  const double scale =
      std::min(1.0, static_cast<double>(kSampleSidePx) / std::max(image.width, image.height));
  if (scale < 1) {
    const auto side = [&](int from) { return std::max(1, static_cast<int>(from * scale)); };
    image = shrink(image, {.width = side(image.width), .height = side(image.height)});
  }
  const bool has_names = are_worth_names(sample.annotations, &RecordAnnotation::label);
  for (const RecordAnnotation& one : sample.annotations) {
    const auto& [x, y, width, height] = one.bbox;
    const auto label = static_cast<std::size_t>(one.label);
    draw_box(image, {x * scale, y * scale, (x + width) * scale, (y + height) * scale},
             {.colour = label_colour(one.label), .dashed = one.iscrowd || one.is_partial},
             has_names && label < input.manifest.categories.size()
                 ? input.manifest.categories[label].name
                 : "");
  }
  const std::string truth =
      sample.label
          ? escaped(input.manifest.categories.at(static_cast<std::size_t>(*sample.label)).name)
          : grouped(static_cast<std::int64_t>(sample.annotations.size()), "box", "boxes");
  return embed_image(
      image,
      cat(escaped(input.file_name(sample.image_id)), " · ", sample.width, " × ", sample.height,
          sample.tile ? cat(" at ", sample.tile->x, ", ", sample.tile->y) : "", " · ", truth),
      kSampleSidePx);
}

Gallery sample_gallery(const DataPageInput& input) {
  const std::vector<const SampleImage*> samples = input.facts.samples();
  std::vector<std::optional<EmbeddedImage>> drawn(samples.size());
  for_each_parallel(samples.size(), input.thread_count, [&](std::size_t i) {
    try {
      drawn[i] = draw_sample(input, *samples[i]);
    } catch (const Error& error) {  // by --check header a damaged image may be in the set
      if (error.kind() != ErrorKind::kData) throw;
      log_warning(error.what(), "; it is left out of the samples");
    }
  });
  Gallery gallery{.title = "Samples",
                  .note = is_classified(input)
                              ? "Chosen by a hash."
                              : "Chosen by a hash. Crowds and partial boxes are dashed."};
  for (std::optional<EmbeddedImage>& one : drawn) {
    if (one) gallery.images.push_back(std::move(*one));
  }
  return gallery;
}

}  // namespace

std::string kinds_text(const std::vector<QuarantinedImage>& quarantined) {
  std::map<std::string, int> count_of;
  for (const QuarantinedImage& bad : quarantined) ++count_of[bad.kind];
  std::string text;
  for (const auto& [kind, count] : count_of) {
    text += cat(text.empty() ? "" : ", ", kind, " ", count);
  }
  return text;
}

std::string render_data_page(const DataPageInput& input) {
  const Findings found = find(input);
  const ManifestCounts& counts = input.manifest.counts;
  const bool has_tiles = input.manifest.options.tile.has_value();
  Report report{
      .title = kTitle,
      .subtitle = cat(has_tiles ? cat(grouped(counts.images, "tile", "tiles"), " of ",
                                      grouped(counts.tiled_images, "image", "images"))
                                : grouped(counts.images, "image", "images"),
                      is_classified(input) ? "" : cat(", ", grouped(counts.boxes, "box", "boxes")),
                      ", ", grouped(std::ssize(found.of_label), "class", "classes")),
      .metrics = metrics_of(input, found),
      .findings = findings_of(input, found),
      .histograms = {class_histogram(input, found)},
      .tables_title = "Details",
      .tables = {class_table(input, found)}};
  // The parts that not every set has.
  std::vector<double> boxes, images;
  for (const BoxFacts& box : input.facts.boxes()) boxes.push_back(box.side_px);
  for (const ImageFacts& image : input.facts.images()) {
    images.push_back(std::sqrt(static_cast<double>(image.width) * image.height));
  }
  if (!boxes.empty()) report.histograms.push_back(size_histogram("Box sizes", "boxes", boxes));
  if (!has_tiles) {  // which all have one size
    report.histograms.push_back(size_histogram("Image sizes", "images", images));
  }
  if (!found.repeats.empty()) report.tables.push_back(identical_table(input, found));
  if (!input.quarantined.empty()) report.tables.push_back(quarantine_table(input));
  report.galleries = {sample_gallery(input)};
  return render_report(report);
}

bool is_data_page(const std::string& path) {
  constexpr std::size_t kHeadBytes = 1024;
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  return read_start(path, kHeadBytes).find(cat("<title>", kTitle, "</title>")) != std::string::npos;
}

}  // namespace retina
