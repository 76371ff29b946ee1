#include "preprocess/page/page_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/data/record_image.h"
#include "shared/image/draw.h"
#include "shared/image/resize.h"
#include "shared/shard/set_notes.h"

namespace retina {
namespace {

constexpr std::size_t kDrawnClasses = 80, kClassesSideBySide = 8, kNamedClasses = 12;
constexpr std::size_t kListedGroups = 50, kNamesOfGroup = 6;
constexpr std::size_t kListedQuarantined = 20, kListedSizes = 10;
constexpr int kSampleSidePx = 480;

std::string quarantine_kinds(const std::vector<QuarantinedImage>& quarantined) {
  std::map<std::string, int> count_of;
  for (const QuarantinedImage& bad : quarantined) ++count_of[bad.kind];
  std::string text;
  for (const auto& [kind, count] : count_of)
    text += cat(text.empty() ? "" : ", ", kind, " ", count);
  return text;
}

// Of a group of identical images: do their boxes or classes differ?
bool truth_differs(const DataFacts& facts, const std::vector<std::size_t>& group) {
  return std::any_of(group.begin(), group.end(), [&](std::size_t place) {
    return facts.images()[place].truth_xxh3 != facts.images()[group.front()].truth_xxh3;
  });
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

}  // namespace

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double value) {
  if (value > 0 && value < 0.0005) return "< 0.1 %";
  return cat(fixed(value * 100, 1), " %");
}

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

Binned::Binned(std::vector<double> all) : edges(std::move(all)), counts(edges.size() - 1) {}

void Binned::add(double value) {
  const auto after = std::upper_bound(edges.begin(), edges.end(), value);
  const auto place = std::clamp<std::ptrdiff_t>(after - edges.begin() - 1, 0,
                                                static_cast<std::ptrdiff_t>(counts.size()) - 1);
  ++counts[static_cast<std::size_t>(place)];
}

void Binned::trim() {
  while (counts.size() > 2 && counts.back() == 0 && counts[counts.size() - 2] == 0) {
    counts.pop_back(), edges.pop_back();
  }
  while (counts.size() > 2 && counts[0] == 0 && counts[1] == 0) {
    counts.erase(counts.begin());
    edges.erase(edges.begin());
  }
}

std::vector<double> powers(double low, double high, double growth) {
  std::vector<double> edges;
  for (int k = 0;; ++k) {
    edges.push_back(low * std::pow(growth, k));
    if (edges.back() > high) return edges;
  }
}

void add_bars(Histogram& histogram, const Binned& bins, const std::string& unit) {
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    histogram.bars.push_back(
        {.detail = cat(fixed(bins.edges[i], 2), " to ", fixed(bins.edges[i + 1], 2), unit, ": ",
                       grouped(bins.counts[i])),
         .count = static_cast<double>(bins.counts[i])});
  }
}

Histogram aspect_histogram(const DataFacts& facts) {
  Binned bins(powers(1.0 / 16, 16, std::pow(2.0, 0.25)));
  for (const ImageFacts& image : facts.images()) {
    bins.add(static_cast<double>(image.width) / image.height);
  }
  bins.trim();
  Histogram histogram{.title = "Shapes of the images",
                      .x_label = "width / height (log scale)",
                      .y_label = "images",
                      .labels_edges = true};
  add_bars(histogram, bins, "");
  const std::size_t every = bins.counts.size() > 12 ? 2 : 1;
  for (std::size_t i = 0; i < bins.counts.size(); i += every) {
    histogram.bars[i].label = fixed(bins.edges[i], 2);
  }
  return histogram;
}

Histogram image_size_histogram(const DataFacts& facts) {
  Binned bins(powers(1, 65536, std::sqrt(2.0)));
  for (const ImageFacts& image : facts.images()) {
    bins.add(std::sqrt(static_cast<double>(image.width) * image.height));
  }
  bins.trim();
  Histogram histogram{.title = "Sizes of the images",
                      .x_label = "square root of the pixels (log scale)",
                      .y_label = "images",
                      .labels_edges = true};
  add_bars(histogram, bins, " px");
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    histogram.bars[i].label = fixed(bins.edges[i], 0);
  }
  return histogram;
}

ClassSizes sorted_counts(ClassSizes counts) {
  counts.by_count.resize(counts.of_label.size());
  std::iota(counts.by_count.begin(), counts.by_count.end(), std::size_t{0});
  std::stable_sort(
      counts.by_count.begin(), counts.by_count.end(),
      [&](std::size_t a, std::size_t b) { return counts.of_label[a] > counts.of_label[b]; });
  counts.few = static_cast<std::size_t>(
      std::count_if(counts.of_label.begin(), counts.of_label.end(),
                    [&](std::int64_t count) { return count < counts.enough; }));
  return counts;
}

Headline classes_headline(const ClassSizes& counts) {
  return {"classes", cat(counts.by_count.size()),
          counts.few == 0 ? cat("all with ", counts.enough, " ", counts.many, " or more")
                          : cat(counts.few, " with fewer than ", counts.enough, " ", counts.many)};
}

std::vector<Finding> noted_findings(const DataPageInput& input) {
  std::vector<Finding> list;
  for (const std::string& note : set_notes(input.manifest)) list.push_back({.text = note + "."});
  return list;
}

Finding few_finding(const DataPageInput& input, const ClassSizes& counts, const char* advice) {
  std::string names;
  for (std::size_t i = 0; i < std::min(counts.few, kNamedClasses); ++i) {
    const std::size_t label = counts.by_count[counts.by_count.size() - 1 - i];
    names += cat(i == 0 ? "" : ", ", escaped(input.manifest.categories[label].name), " (",
                 counts.of_label[label], ")");
  }
  return {.text = cat(counts.few == 1 ? "1 class has" : cat(counts.few, " classes have"),
                      " fewer than ", counts.enough, " ", counts.whole, ": ", names,
                      counts.few > kNamedClasses ? " and others" : "", ". ", advice)};
}

Histogram class_histogram(const DataPageInput& input, const ClassSizes& counts,
                          std::int64_t total) {
  const std::size_t class_count = counts.by_count.size();
  const std::size_t drawn = std::min(class_count, kDrawnClasses);
  std::string title = cat(counts.many, " of each class");
  title[0] = static_cast<char>(title[0] - 'a' + 'A');
  Histogram histogram{.title = title, .y_label = counts.whole, .wide = drawn > kClassesSideBySide};
  std::int64_t shown = 0;
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::size_t label = counts.by_count[i];
    const std::string name = escaped(input.manifest.categories[label].name);
    const std::int64_t count = counts.of_label[label];
    shown += count;
    histogram.bars.push_back({.label = name,
                              .detail = cat(name, ": ", grouped(count, counts.one, counts.many)),
                              .count = static_cast<double>(count)});
  }
  histogram.x_label =
      drawn == class_count
          ? cat("classes, most ", counts.many, " first")
          : cat("the ", drawn, " largest of ", grouped(static_cast<std::int64_t>(class_count)),
                " classes, with ", percent(share(shown, total)), " of the ", counts.many);
  return histogram;
}

Repeats find_repeats(const DataFacts& facts) {
  Repeats repeats{.groups = facts.identical_images()};
  for (const std::vector<std::size_t>& group : repeats.groups) {
    repeats.image_count += static_cast<std::int64_t>(group.size()) - 1;
    repeats.contradictory += truth_differs(facts, group) ? 1 : 0;
  }
  return repeats;
}

Headline repeats_headline(const Repeats& repeats) {
  return {"identical images", grouped(repeats.image_count),
          repeats.groups.empty()
              ? "all differ"
              : cat("repeat one of ", grouped(static_cast<std::int64_t>(repeats.groups.size())))};
}

Finding repeats_finding(const Repeats& repeats) {
  return {.text = cat(grouped(repeats.image_count, "image repeats", "images repeat"),
                      " another one byte for byte. Make sure that no image is in both the "
                      "training and the validation set.")};
}

Table identical_table(const DataPageInput& input, const Repeats& repeats) {
  const auto& groups = repeats.groups;
  const bool has_classes = input.manifest.task == Task::kClassification;
  Table table{.title = "Identical images",
              .columns = {"images (id)", has_classes ? "classes" : "boxes"},
              .note = cat("The same image, byte for byte",
                          groups.size() > kListedGroups ? "; the first groups." : "."),
              .wide = true};
  std::vector<std::vector<std::size_t>> sorted = groups;
  std::stable_partition(sorted.begin(), sorted.end(), [&](const std::vector<std::size_t>& group) {
    return truth_differs(input.facts, group);
  });
  sorted.resize(std::min(sorted.size(), kListedGroups));
  for (const std::vector<std::size_t>& group : sorted) {
    std::string names;
    for (std::size_t k = 0; k < std::min(group.size(), kNamesOfGroup); ++k) {
      const std::int64_t id = input.facts.images()[group[k]].image_id;
      names += cat(k == 0 ? "" : ", ", escaped(input.file_name(id)), " (", id, ")");
    }
    if (group.size() > kNamesOfGroup) names += cat(", ... ", group.size(), " in all");
    table.rows.push_back({names, truth_differs(input.facts, group) ? "differ" : "the same"});
  }
  return table;
}

Table size_table(const DataFacts& facts) {
  std::map<std::pair<int, int>, std::int64_t> count_of;
  for (const ImageFacts& image : facts.images()) ++count_of[{image.width, image.height}];
  std::vector<std::pair<std::int64_t, std::pair<int, int>>> sizes;
  for (const auto& [size, count] : count_of) sizes.emplace_back(-count, size);
  std::sort(sizes.begin(), sizes.end());
  Table table{
      .title = "Commonest image sizes",
      .columns = {"width × height", "images", "of all"},
      .note = cat(grouped(static_cast<std::int64_t>(sizes.size()), "size", "sizes"), " in all."),
      .bar_column = 1};
  for (std::size_t i = 0; i < std::min(sizes.size(), kListedSizes); ++i) {
    const auto& [count, size] = sizes[i];
    const double part = share(-count, static_cast<std::int64_t>(facts.images().size()));
    table.rows.push_back({cat(size.first, " × ", size.second), grouped(-count), percent(part)});
    table.bars.push_back(part);
  }
  return table;
}

Headline quarantine_headline(const DataPageInput& input) {
  return {"quarantined", grouped(input.manifest.counts.quarantined), "images that are not used"};
}

Finding quarantine_finding(const DataPageInput& input) {
  const ManifestCounts& counts = input.manifest.counts;
  return {.text =
              cat(grouped(counts.quarantined, "image is", "images are"), " quarantined (",
                  quarantine_kinds(input.quarantined), "): ",
                  percent(share(counts.quarantined, counts.quarantined + counts.source_images())),
                  " of all. Neither training nor evaluation sees them; the table below has the "
                  "reasons.")};
}

Table quarantine_table(const DataPageInput& input) {
  Table table{
      .title = "Quarantined images", .columns = {"image", "id", "reason"}, .text_column = 2};
  for (std::size_t i = 0; i < std::min(input.quarantined.size(), kListedQuarantined); ++i) {
    const QuarantinedImage& bad = input.quarantined[i];
    table.rows.push_back(
        {escaped(bad.file_name), cat(bad.image_id),
         cat(escaped(bad.reason, kWholeText), bad.hint.empty() ? "" : "; ", bad.hint)});
  }
  const bool more = input.quarantined.size() > kListedQuarantined;
  table.note = cat(quarantine_kinds(input.quarantined), more ? "; the first ones. " : ". ",
                   kQuarantineFile, " lists all. The same command tries them again.");
  table.wide = true;
  return table;
}

Gallery sample_gallery(const DataPageInput& input, const std::string& note) {
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
  Gallery gallery{.title = "Samples", .note = note};
  for (std::optional<EmbeddedImage>& one : drawn) {
    if (one) gallery.images.push_back(std::move(*one));
  }
  return gallery;
}

}  // namespace retina
