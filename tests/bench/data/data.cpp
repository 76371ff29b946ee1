// build/bin/bench_data --data SHARDS: what a photograph costs on its way into a batch. Decode
// alone, decode + resize + normalise, the loader in both forms with one thread and with two. Prints
// one line of JSON a case: medians of rounds in which all cases take turns; images per second of a
// core's work, too, which other programs on the machine change less. data.py runs it beside its
// peers.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"
#include "shared/base/program.h"
#include "shared/base/version.h"
#include "shared/cli/cli.h"
#include "shared/data/loader.h"
#include "shared/data/record_image.h"
#include "shared/data/sample_source.h"

namespace {

using namespace retina;

struct BenchOptions {
  std::string data;
  int rounds = 5;
  int images_per_batch = 16;

  void validate() const {
    if (data.empty()) throw Error(ErrorKind::kUsage, "--data is missing");
    if (rounds < 1) throw Error(ErrorKind::kUsage, "--rounds: too few (want at least 1)");
    if (images_per_batch < 1) {
      throw Error(ErrorKind::kUsage, "--images-per-batch: too few (want at least 1)");
    }
  }
};

// A resize rule. 4:3 photographs have as many pixels at 443/591 as a square of 512.
struct Sides {
  int min_px, max_px;
};
constexpr Sides kSmall{443, 591}, kLarge{800, 1333};

// Batches of the whole set in order, each padded to its largest image.
std::vector<BatchRequest> requests_of(const ImageIndex& index, Sides sides, int images_per_batch) {
  std::vector<BatchRequest> requests;
  for (std::size_t record = 0; record < index.size(); ++record) {
    if (record % static_cast<std::size_t>(images_per_batch) == 0) {
      requests.push_back({.frame = {.min_side_px = sides.min_px, .max_side_px = sides.max_px}});
    }
    BatchRequest& request = requests.back();
    const IndexEntry entry = index[record];
    const ResizedSize size = resized_size(entry.width, entry.height, sides.min_px, sides.max_px);
    request.padded.width = std::max(request.padded.width, padded_side_px(size.width));
    request.padded.height = std::max(request.padded.height, padded_side_px(size.height));
    request.slots.push_back({.record = record, .flip = record % 2 == 1});
  }
  return requests;
}

BatchLoader::RequestSource in_order(std::vector<BatchRequest> requests) {
  return [requests = std::move(requests), next = std::size_t{0}]() mutable {
    return next < requests.size() ? std::optional(requests[next++]) : std::nullopt;
  };
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options), shards_(options.data), source_(shards_) {
    add("decode", image_count(), [this] { decode({}); });
    add("decode+resize 512", image_count(), [this] { decode(kSmall); });
    add("decode+resize 800/1333", image_count(), [this] { decode(kLarge); });
    for (const int threads : {1, 2}) {
      add(cat("loader 512, ", threads, threads == 1 ? " thread" : " threads"), image_count(),
          [this, threads] { load(source_, kSmall, threads, options_.images_per_batch); });
      add(cat("loader 800/1333, ", threads, threads == 1 ? " thread" : " threads"), image_count(),
          [this, threads] { load(source_, kLarge, threads, options_.images_per_batch); });
      add(cat("loader stored, ", threads, threads == 1 ? " thread" : " threads"), image_count(),
          [this, threads] {
            load(source_, kLarge, threads, options_.images_per_batch, PixelForm::kStored);
          });
    }
  }

  // One pass over all cases.
  void run_round() {
    for (Case& one : cases_) {
      Stopwatch watch;
      const std::clock_t before = std::clock();
      one.run();
      one.rates.push_back(one.images / (watch.lap_ms() * 1e-3));
      const double core_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
      one.rates_per_core.push_back(one.images / core_seconds);
    }
  }

  void print(const std::string& command) const {
    for (const Case& one : cases_) {
      JsonWriter json;
      json.begin_object().field("bench", "data").field("case", one.name);
      json.field("images_per_second", median(one.rates));
      json.field("images_per_second_min", *std::min_element(one.rates.begin(), one.rates.end()));
      json.field("images_per_second_max", *std::max_element(one.rates.begin(), one.rates.end()));
      json.field("images_per_core_second", median(one.rates_per_core));
      print(json, command);
    }
  }

 private:
  struct Case {
    std::string name;
    double images;
    std::function<void()> run;
    std::vector<double> rates = {};
    std::vector<double> rates_per_core = {};  // by the time that this process computed
  };

  double image_count() const { return static_cast<double>(shards_.index().size()); }

  void add(std::string name, double images, std::function<void()> run) {
    cases_.push_back({std::move(name), images, std::move(run)});
  }

  void print(JsonWriter& json, const std::string& command) const {
    json.field("images", static_cast<std::int64_t>(image_count())).field("rounds", options_.rounds);
    json.field("command", command).field("version", kProjectVersion);
    json.field("revision", kGitRevision).end_object();
    std::cout << json.text() << std::endl;
  }

  // On this thread, into memory that is used again.
  void decode(std::optional<Sides> sides) {
    for (std::size_t place = 0; place < shards_.index().size(); ++place) {
      decode_image(shards_.read(place), shards_.folder(), decoder_, image_);
      if (!sides) continue;
      const ResizedSize size =
          resized_size(image_.width, image_.height, sides->min_px, sides->max_px);
      const std::int64_t plane = std::int64_t{size.width} * size.height;
      planes_.resize(std::max(planes_.size(), static_cast<std::size_t>(3 * plane)));
      resize_normalise(image_,
                       {.width = size.width,
                        .height = size.height,
                        .row_stride = size.width,
                        .plane_stride = plane,
                        .flip = place % 2 == 1},
                       Normalisation{}, planes_.data());
    }
  }

  void load(const SampleSource& source, Sides sides, int threads, int images_per_batch,
            PixelForm form = PixelForm::kNormalised) {
    BatchLoader loader(source, {.threads = threads, .form = form},
                       in_order(requests_of(shards_.index(), sides, images_per_batch)));
    while (loader.next()) {
    }
  }

  const BenchOptions options_;
  ShardSet shards_;
  ShardSource source_;
  JpegDecoder decoder_;
  Image image_;
  std::vector<float> planes_;
  std::vector<Case> cases_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_data", [&] {
    BenchOptions options;
    Cli cli("bench_data", "bench_data --data SHARDS [OPTIONS]",
            "Measures the way of photographs into batches; prints one line of JSON a case.");
    cli.option("data", options.data, "SHARDS", "a folder that coco-pack wrote");
    cli.option("rounds", options.rounds, "N", "in each every case has its turn");
    cli.option("images-per-batch", options.images_per_batch, "N", "of the loader's batches");
    cli.validate([&](const Cli&) { options.validate(); });
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    std::string command = argv[0];
    for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
    Bench bench(options);
    for (int round = 0; round < options.rounds; ++round) bench.run_round();
    bench.print(command);
    return 0;
  });
}
