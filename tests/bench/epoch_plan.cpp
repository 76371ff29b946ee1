// bench_epoch_plan --annotations instances.json [--images N]: what an epoch's plan costs. The sizes
// and classes of the file's images are repeated to N of them. A line of JSON for each sampler,
// shuffle and number of images a step: the time to plan (median of 5), the share of the pixels of a
// step that is padding, and how many counted images a slot reads from outside its lane.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"
#include "shared/base/program.h"
#include "shared/coco/instances.h"
#include "shared/image/resize.h"
#include "train/plan/epoch_plan.h"

namespace {

using namespace retina;

ImageIndex repeated_index(const std::string& path, std::size_t count) {
  const Instances instances = read_instances(path);
  std::map<std::int64_t, int> label_of;
  for (const Category& category : instances.categories) {
    label_of.emplace(category.id, static_cast<int>(label_of.size()));
  }
  std::map<std::int64_t, std::vector<int>> labels_of;
  for (const Annotation& annotation : instances.annotations) {
    labels_of[annotation.image_id].push_back(label_of.at(annotation.category_id));
  }
  ImageIndex index;
  for (std::size_t i = 0; i < count; ++i) {
    const ImageInfo& image = instances.images[i % instances.images.size()];
    std::vector<int> labels = labels_of[image.id];
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    index.push_back({.image_id = static_cast<std::int64_t>(i),
                     .width = image.width,
                     .height = image.height,
                     .labels = labels});
  }
  return index;
}

struct Waste {
  double padding = 0;  // share of the pixels
  std::int64_t foreign_reads = 0, draws = 0;
};

Waste waste_of(const EpochPlan& plan, const ImageIndex& index, const EpochPlanOptions& options) {
  Waste waste;
  double padded = 0, used = 0;
  const auto draws = draw_images(index, options, 0);
  for (std::int64_t number = 0; number < plan.step_count(); ++number) {
    const GlobalStep step = plan.step(number);
    for (std::size_t slot = 0; slot < step.slots.size(); ++slot) {
      const IndexEntry image = index[step.slots[slot].record];
      const ResizedSize size =
          resized_size(image.width, image.height, step.min_side_px, step.max_side_px);
      used += static_cast<double>(size.width) * size.height;
      padded += static_cast<double>(step.padded_width_px) * step.padded_height_px;
      if (!step.slots[slot].counts) continue;
      ++waste.draws;
      const auto [begin, end] = lane_records(draws.size(), slot, step.slots.size());
      waste.foreign_reads += step.slots[slot].record < draws[begin].record ||
                                     step.slots[slot].record > draws[end - 1].record
                                 ? 1
                                 : 0;
    }
  }
  waste.padding = 1 - used / padded;
  return waste;
}

int measure_plans(const std::string& annotations, std::int64_t image_count) {
  const auto index = repeated_index(annotations, static_cast<std::size_t>(image_count));
  for (const auto& [sampler, sampler_word] :
       {std::pair{Sampler::kUniform, "uniform"}, {Sampler::kClassBalanced, "class-balanced"}}) {
    for (const auto& [shuffle, shuffle_word] :
         {std::pair{Shuffle::kSharded, "sharded"}, {Shuffle::kGlobal, "global"}}) {
      for (const int images_per_step : {16, 64, 256}) {
        const EpochPlanOptions options{.seed = 1,
                                       .images_per_step = images_per_step,
                                       .shuffle = shuffle,
                                       .sampler = sampler,
                                       .repeat_threshold = 0.1};
        std::vector<double> seconds;
        for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
          const double begin = now_seconds();
          const EpochPlan plan(index, options, epoch);
          seconds.push_back(now_seconds() - begin);
        }
        const Waste waste = waste_of(EpochPlan(index, options, 0), index, options);
        JsonWriter json;
        json.begin_object()
            .field("bench", "epoch_plan")
            .field("images", image_count)
            .field("sampler", sampler_word)
            .field("shuffle", shuffle_word)
            .field("images_per_step", images_per_step)
            .field("drawn", waste.draws)
            .field("seconds_median", median(seconds))
            .field("padding", waste.padding);
        if (shuffle == Shuffle::kSharded) json.field("foreign_reads", waste.foreign_reads);
        std::cout << json.end_object().text() << '\n';
      }
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string annotations;
  std::int64_t images = 118'287;  // COCO's train2017
  Cli cli("bench_epoch_plan", "bench_epoch_plan --annotations FILE",
          "Measures how long an epoch is planned, and what the plan wastes.");
  cli.option("annotations", annotations, "FILE",
             "COCO instances with the images' sizes (required)");
  cli.option("images", images, "N", "how many images to plan");
  cli.validate([&](const Cli&) {
    if (annotations.empty()) throw Error(ErrorKind::kUsage, "--annotations is missing");
    if (images < 1) throw Error(ErrorKind::kUsage, "--images: must be at least 1");
  });
  return run_program("bench_epoch_plan", [&] {
    return cli.parse(argc, argv) == CliOutcome::kDone ? 0 : measure_plans(annotations, images);
  });
}
