// build/bin/bench_step: steps of training on random images, and how much of them is not
// convolution. train.py runs it beside torchvision's. Prints one line of JSON: medians of the
// steps.
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"
#include "shared/base/program.h"
#include "shared/base/random.h"
#include "tests/support/operators/operator_log.h"
#include "train/step/replica.h"

namespace {

using namespace retina;

struct BenchOptions {
  std::string backbone = "resnet50";
  int side_px = 512;
  int images = 2;
  int boxes = 8;
  int classes = 80;
  int steps = 7;
  int threads = 0;
  Precision precision = Precision::kFp32;
  Norm norm = Norm::kBatch;
  int trainable_layers = 5;
  bool operators = false;

  void validate() const {
    if (side_px < 32 || side_px % 32 != 0) {
      throw Error(ErrorKind::kUsage, cat("--side: not a multiple of 32 (got ", side_px, ")"));
    }
    if (images < 1 || steps < 2 || classes < 1 || boxes < 0 || threads < 0) {
      throw Error(ErrorKind::kUsage, "--images, --steps, --classes, --boxes, --threads: too few");
    }
  }
};

Batch random_batch(const BenchOptions& options) {
  const RandomStream random{.seed = 1, .use = RandomUse::kTest};
  const auto side = static_cast<std::size_t>(options.side_px);
  const std::size_t values = 3 * side * side;
  Batch batch{.padded_width_px = options.side_px, .padded_height_px = options.side_px};
  batch.images = std::make_shared<float[]>(values * static_cast<std::size_t>(options.images));
  std::uint64_t draw = 0;
  for (std::size_t i = 0; i < values * static_cast<std::size_t>(options.images); ++i) {
    batch.images[static_cast<std::ptrdiff_t>(i)] = static_cast<float>(4 * random.unit(draw++) - 2);
  }
  for (int image = 0; image < options.images; ++image) {
    Sample& sample = batch.samples.emplace_back();
    for (int box = 0; box < options.boxes; ++box) {
      const double width = (0.05 + 0.45 * random.unit(draw++)) * options.side_px,
                   height = (0.05 + 0.45 * random.unit(draw++)) * options.side_px,
                   x = random.unit(draw++) * (options.side_px - width),
                   y = random.unit(draw++) * (options.side_px - height);
      sample.boxes.push_back({static_cast<float>(x), static_cast<float>(y),
                              static_cast<float>(x + width), static_cast<float>(y + height)});
      sample.labels.push_back(static_cast<std::int64_t>(
          random.below(draw++, static_cast<std::uint64_t>(options.classes))));
    }
  }
  batch.part.real_image_count = options.images;
  return batch;
}

// Milliseconds, number, largest result and name of the operators that took longest; one that calls
// another has its time, too.
void print_longest(const OperatorLog& log) {
  constexpr std::size_t kMost = 25;
  std::vector<std::pair<std::string, OperatorCalls>> all;
  for (const auto& one : log.all()) all.push_back(one);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  if (all.size() > kMost) all.resize(kMost);
  for (const auto& [name, calls] : all) {
    std::cerr << calls.ms << " ms, " << calls.count << " x, " << calls.largest << ": " << name
              << '\n';
  }
}

int measure(const BenchOptions& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  ReplicaOptions wanted;
  wanted.task.model.backbone = options.backbone;
  wanted.task.model.class_count = options.classes;
  wanted.task.model.norm = options.norm;
  wanted.trainable_layers = options.trainable_layers;
  wanted.task.model.head_norm = HeadNorm::kNone;
  wanted.task.precision = options.precision;
  const auto alone = make_self_communicator();
  Replica replica(wanted, *alone);
  const Batch batch = random_batch(options);
  std::vector<double> step_ms, outside_ms;
  for (int step = 1; step <= options.steps; ++step) {
    const OperatorLog log(options.operators ? LoggedOperators::kAll
                                            : LoggedOperators::kConvolutions);
    Stopwatch clock;
    replica.backward(replica.loss(replica.forward(batch), batch), batch.part.is_last_micro_batch);
    replica.all_reduce();
    replica.update(1e-3, step);
    replica.take_metrics();
    const double ms = clock.lap_ms();
    if (step == 1) continue;  // allocates and compiles
    step_ms.push_back(ms);
    outside_ms.push_back(ms - log.convolution_ms());
    if (options.operators && step == options.steps) print_longest(log);
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  JsonWriter json;
  json.begin_object().field("bench", "step").field("step_ms", median(step_ms));
  json.field("outside_convolution_ms", median(outside_ms));
  json.field("memory_bytes", std::int64_t{usage.ru_maxrss} * 1024).end_object();
  std::cout << json.text() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_step", [&] {
    BenchOptions options;
    Cli cli(
        "bench_step", "bench_step [OPTIONS]",
        "Measures steps of training and what of them is not convolution; prints one line of JSON.");
    cli.option("backbone", options.backbone, "NAME", "resnet18 to resnet152");
    cli.option("side", options.side_px, "PX", "of the square images");
    cli.option("images", options.images, "N", "of a step");
    cli.option("boxes", options.boxes, "N", "of an image");
    cli.option("classes", options.classes, "N", "of the boxes");
    cli.option("steps", options.steps, "N", "the first is left out");
    cli.option("threads", options.threads, "N", "0: LibTorch's choice");
    cli.choice("precision", options.precision, kPrecisions, "of the convolutions");
    cli.choice("norm", options.norm, kNorms, "of the backbone");
    cli.option("trainable-layers", options.trainable_layers, "N", "of the backbone");
    cli.flag("operators", options.operators, "tell the operators of the last step, longest first");
    cli.validate([&](const Cli&) { options.validate(); });
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    return measure(options);
  });
}
