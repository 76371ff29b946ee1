// build/bin/bench_infer --checkpoint FILE --shards SHARDS: JPEG bytes to boxes. One image after
// the other, nothing beside it, and in batches as retina-eval does it. infer.py runs it beside
// torchvision's model. Prints one line of JSON: median milliseconds of an image, images a
// second.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <sys/resource.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"
#include "shared/base/program.h"
#include "shared/cli/cli.h"
#include "shared/data/batch.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/image/resize.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/model/postprocess.h"

namespace {

using namespace retina;

struct BenchOptions {
  std::string checkpoint, shards;
  int images_per_batch = 32;
  int decode_threads = 2;
  int threads = 2;
  DeviceChoice device = DeviceChoice::kCpu;
  Precision precision = Precision::kFp32;

  void validate() const {
    if (checkpoint.empty() || shards.empty()) {
      throw Error(ErrorKind::kUsage, "--checkpoint and --shards are both needed");
    }
    if (images_per_batch < 1 || decode_threads < 1 || threads < 1) {
      throw Error(ErrorKind::kUsage, "--images-per-batch, --decode-threads, --threads: too few");
    }
  }
};

// Decode, resize, network, suppression; how many boxes.
std::int64_t detect_one(const RetinaNet& model, Precision precision, const ShardSet& shards,
                        std::size_t place, JpegDecoder& decoder, Image& image) {
  const ModelConfig& config = model.config();
  decode_image(shards.read(place), shards.folder(), decoder, image);
  const ResizedSize size =
      resized_size(image.width, image.height, config.min_side_px, config.max_side_px);
  const PixelSize padded{.height = padded_side_px(size.height),
                         .width = padded_side_px(size.width)};
  const at::Tensor pixels = at::zeros({1, 3, padded.height, padded.width});
  resize_normalise(image,
                   {.width = size.width,
                    .height = size.height,
                    .row_stride = padded.width,
                    .plane_stride = std::int64_t{padded.width} * padded.height},
                   config.normalisation(), pixels.mutable_data_ptr<float>());
  HeadOutputs outputs;
  {
    const AutocastScope autocast(precision, model.device().type());
    outputs = model.forward(pixels.to(model.device()));
  }
  for (at::Tensor& level : outputs.logits) level = level.to(at::kFloat);
  for (at::Tensor& level : outputs.deltas) level = level.to(at::kFloat);
  const auto found =
      postprocess(outputs, config, padded, {{.height = size.height, .width = size.width}}, {});
  return found[0].scores.size(0);
}

int measure(const BenchOptions& options) {
  at::set_num_threads(options.threads);
  const at::NoGradGuard no_grad;
  RetinaNet model = trained_network(load_checkpoint(options.checkpoint), options.checkpoint);
  use_channels_last(model);
  model.to(choose_device(options.device));
  const ShardSet shards(options.shards);
  JpegDecoder decoder;
  Image image;
  std::vector<double> milliseconds;
  std::int64_t boxes = 0;
  detect_one(model, options.precision, shards, 0, decoder, image);
  for (std::size_t place = 0; place < shards.index().size(); ++place) {
    Stopwatch clock;
    boxes += detect_one(model, options.precision, shards, place, decoder, image);
    milliseconds.push_back(clock.lap_ms());
  }
  const auto alone = make_self_communicator();
  Stopwatch clock;
  const ShardSource samples(shards, model.config().normalisation());
  detect_share(model, {samples, shards.manifest().categories, *alone},
               {.images_per_batch = options.images_per_batch,
                .decode_threads = options.decode_threads,
                .precision = options.precision});
  const double all_ms = clock.lap_ms();
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  JsonWriter json;
  json.begin_object()
      .field("bench", "infer")
      .field("ms_per_image", median(milliseconds))
      .field("images_per_second", 1e3 * static_cast<double>(shards.index().size()) / all_ms)
      .field("boxes", boxes)
      .field("memory_bytes", std::int64_t{usage.ru_maxrss} * 1024)
      .end_object();
  std::cout << json.text() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_infer", [&] {
    BenchOptions options;
    Cli cli("bench_infer", "bench_infer --checkpoint FILE --shards SHARDS [OPTIONS]",
            "Measures the way from JPEG bytes to boxes; prints one line of JSON.");
    cli.option("checkpoint", options.checkpoint, "FILE", "a training checkpoint");
    cli.option("shards", options.shards, "SHARDS", "a folder that coco-pack wrote");
    cli.option("images-per-batch", options.images_per_batch, "N", "of the batches");
    cli.option("decode-threads", options.decode_threads, "N", "beside the network, for batches");
    cli.option("threads", options.threads, "N", "of the network");
    cli.choice("device", options.device, kDeviceChoices, "of the network");
    cli.choice("precision", options.precision, kPrecisions, "of convolutions");
    cli.validate([&](const Cli&) { options.validate(); });
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    return measure(options);
  });
}
