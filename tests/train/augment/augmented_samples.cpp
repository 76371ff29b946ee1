// augmented_samples --train SHARDS --output DIR --min-side PX --epochs N [--augment ...]: the first
// image as each of N epochs trains on it. One line of JSON a sample on stdout: what was drawn, size
// and boxes; the pixels, between 0 and 1, in DIR/NUMBER.f32: [3, height, width] f32.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/program.h"
#include "shared/cli/cli.h"
#include "shared/data/sample_source.h"
#include "train/augment/augment_choice.h"
#include "train/plan/epoch_plan.h"

namespace {

using namespace retina;

template <class T>
void write_list(JsonWriter& json, const T& values) {
  json.begin_array();
  for (const auto value : values) json.value(static_cast<double>(value));
  json.end_array();
}

std::string description(const Sample& sample) {
  const Warp warp = sample.slot.warp.value_or(Warp{});
  JsonWriter json;
  json.begin_object().field("flip", sample.slot.flip);
  json.field("is_warped", sample.slot.warp.has_value());
  write_list(json.key("source_of"), warp.source_of.m);
  write_list(json.key("colour"), warp.colour.m);
  json.field("width", sample.width_px).field("height", sample.height_px);
  write_list(json.key("labels"), sample.labels);
  json.key("boxes").begin_array();
  for (const auto& box : sample.boxes) write_list(json, box);
  return json.end_array().end_object().text();
}

// The pixels without the padding, as bytes.
std::string planes(const Sample& sample, const BatchRequest& request,
                   const std::vector<float>& pixels) {
  std::string bytes;
  for (int row = 0; row < 3 * request.padded.height; ++row) {
    if (row % request.padded.height >= sample.height_px) continue;
    const float* const first = pixels.data() + static_cast<std::size_t>(row) *
                                                   static_cast<std::size_t>(request.padded.width);
    bytes.append(reinterpret_cast<const char*>(first),
                 static_cast<std::size_t>(sample.width_px) * sizeof(float));
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("augmented_samples", [&] {
    std::string train, output;
    int min_side_px = 0, epochs = 1;
    AugmentChoice augment;
    Cli cli("augmented_samples", "augmented_samples --train SHARDS --output DIR [options]",
            "Writes what training sees of an image.");
    cli.option("train", train, "SHARDS", "a folder that coco-pack wrote");
    cli.option("output", output, "DIR", "where the pixels go");
    cli.option("min-side", min_side_px, "PX", "resize the shorter side to this");
    cli.option("epochs", epochs, "N", "how many samples");
    declare_options(cli, augment);
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    const ShardSet shards(train);
    const ShardSource source(shards, {.mean = {0, 0, 0}, .std = {1, 1, 1}});
    JpegDecoder decoder;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const EpochPlan plan(source.index(),
                           {.seed = 1,
                            .images_per_step = 1,
                            .frame = {.min_side_px = min_side_px, .max_side_px = 10 * min_side_px},
                            .augment = augment.options()},
                           epoch);
      const BatchRequest request = rank_micro_batches(plan.step(0), 0, 1, 0).at(0);
      std::vector<float> pixels(std::size_t{3} * static_cast<std::size_t>(request.padded.width) *
                                static_cast<std::size_t>(request.padded.height));
      const Sample sample = source.load(request, 0, decoder, pixels.data());
      std::cout << description(sample) << '\n';
      write_file_atomically(cat(output, "/", epoch, ".f32"), planes(sample, request, pixels));
    }
    return 0;
  });
}
