#include "train/report/preview.h"

#include <algorithm>
#include <cmath>

#include "shared/anchor/anchor.h"
#include "shared/base/cat.h"
#include "shared/image/draw.h"
#include "shared/report/report.h"
#include "train/plan/image_names.h"
#include "train/plan/step_loader.h"

namespace retina {
namespace {

constexpr Colour kCovered = {46, 184, 76};
constexpr Colour kUncovered = {230, 48, 48};
constexpr Colour kPartial = {150, 150, 150};
// Images loaded at once: few enough for the memory of any machine, whatever the images of a step.
constexpr int kMicroBatch = 8;

struct Counts {
  std::int64_t images = 0, boxes = 0, uncovered = 0, without_boxes = 0, partial = 0;
};

// Draws the boxes and counts them; returns the number of those that no anchor covers.
std::int64_t draw_boxes(Image& image, const Sample& sample, const PreviewInput& input) {
  const AnchorCoverage anchors(input.anchors.sizes, input.anchors.per_cell);
  const bool has_names = are_worth_names(sample.labels, std::identity());
  std::int64_t uncovered = 0;
  for (const auto& [left, top, right, bottom] : sample.partial_boxes) {
    draw_box(image, {left, top, right, bottom}, {.colour = kPartial, .dashed = true}, "");
  }
  for (std::size_t i = 0; i < sample.boxes.size(); ++i) {
    const auto& [left, top, right, bottom] = sample.boxes[i];
    const bool is_covered = !input.foreground_iou ||
                            anchors.best_iou(right - left, bottom - top) >= *input.foreground_iou;
    uncovered += is_covered ? 0 : 1;
    draw_box(
        image, {left, top, right, bottom}, {.colour = is_covered ? kCovered : kUncovered},
        has_names ? input.train.categories[static_cast<std::size_t>(sample.labels[i])].name : "");
  }
  return uncovered;
}

std::string caption(const Sample& sample, std::int64_t step, std::int64_t uncovered,
                    const PreviewInput& input) {
  const std::size_t boxes = sample.boxes.size();
  if (input.plan.options().frame.framing == Framing::kSquare) {
    return cat(image_name(sample), ", step ", step + 1, ": ",
               input.train.categories[static_cast<std::size_t>(sample.labels.front())].name,
               sample.slot.flip ? ", mirrored" : "");
  }
  return cat(image_name(sample), ", step ", step + 1, ": ", sample.width_px, " x ",
             sample.height_px, " px", sample.slot.flip ? ", mirrored" : "", "; ",
             counted(boxes, "box", "boxes"), uncovered == 0 ? "" : cat(", ", uncovered, " red"));
}

// Adds the samples of the batch, until the page is full.
void show(const Batch& batch, const PreviewInput& input, Gallery& gallery, Counts& counts) {
  const std::int64_t plane = std::int64_t{batch.padded.width} * batch.padded.height;
  for (std::size_t i = 0; i < batch.samples.size() && counts.images < input.image_count; ++i) {
    const Sample& sample = batch.samples[i];
    if (!sample.slot.counts) continue;
    Image image =
        image_from({.values = batch.images.get() + static_cast<std::int64_t>(i) * 3 * plane,
                    .row_stride = batch.padded.width,
                    .plane_stride = plane,
                    .size = {sample.width_px, sample.height_px}},
                   input.normalisation);
    const std::int64_t uncovered = draw_boxes(image, sample, input);
    gallery.images.push_back(
        embed_image(image, caption(sample, batch.part.step, uncovered, input)));
    counts.images += 1;
    counts.boxes += static_cast<std::int64_t>(sample.boxes.size());
    counts.uncovered += uncovered;
    counts.without_boxes += sample.boxes.empty() ? 1 : 0;
    counts.partial += static_cast<std::int64_t>(sample.partial_boxes.size());
  }
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "";
  return cat(fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1),
             " % of the boxes");
}

}  // namespace

Image image_from(const SamplePlanes& planes, const Normalisation& normalisation) {
  Image image(planes.size.width, planes.size.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const float value = planes.values[static_cast<std::int64_t>(c) * planes.plane_stride +
                                          y * planes.row_stride + x];
        const float level = 255 * (value * normalisation.std[c] + normalisation.mean[c]);
        image.pixel(x, y)[c] =
            static_cast<std::uint8_t>(std::lround(std::clamp(level, 0.0F, 255.0F)));
      }
    }
  }
  return image;
}

std::string render_preview(const PreviewInput& input) {
  Gallery gallery{.title = "Samples", .note = "Green: ground truth."};
  if (input.foreground_iou) {
    gallery.note += cat(" Red: no anchor has an IoU of ", shortest(*input.foreground_iou),
                        " with a box of this size; such a box is learned by its best anchor alone, "
                        "or by none where the recipe says so. See --anchor-sizes.");
  }
  // The first batches of the run, as training loads them.
  Counts counts;
  const auto batches = load_steps({.source = input.train.source,
                                   .plan = input.plan,
                                   .micro_batch = kMicroBatch,
                                   .threads = input.threads,
                                   .end = input.total_steps});
  while (counts.images < input.image_count) {
    const std::optional<Batch> batch = batches->next();
    if (!batch) break;
    show(*batch, input, gallery, counts);
  }
  // The page: counts of the boxes, samples, options. Square samples have no boxes.
  std::string folders;
  for (const std::string& one : input.folders) folders += cat(folders.empty() ? "" : ", ", one);
  Report report{.title = cat("retina-train: preview of ", folders),
                .subtitle = cat("What the model will see first, in this order; --augment ",
                                input.augment, ", seed ", input.plan.options().seed)};
  report.metrics = {{"samples", cat(counts.images), "of the run's first steps"}};
  if (input.plan.options().frame.framing == Framing::kSquare) {
    gallery.note = "";
  } else {
    if (counts.partial > 0) {
      gallery.note +=
          " Dashed: too little of an object is inside the tile; nothing is learned here.";
    }
    report.metrics.push_back({"boxes", cat(counts.boxes), "that are trained on"});
    if (input.foreground_iou) {
      report.metrics.push_back(
          {cat("below IoU ", shortest(*input.foreground_iou), " with every anchor"),
           cat(counts.uncovered), share_text(counts.uncovered, counts.boxes)});
    }
    report.metrics.push_back({"without a box", cat(counts.without_boxes), "samples"});
  }
  report.galleries.push_back(std::move(gallery));
  report.settings = settings_of(input.all_options);
  return render_report(report);
}

}  // namespace retina
