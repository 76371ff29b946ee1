#include "evaluate/model/loaded_model.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/memory.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/data/loader.h"
#include "shared/evaluation/predict/classify.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/job/rank_program.h"
#include "shared/model/config.h"
#include "shared/model/device.h"
#include "shared/onnx/onnx_file.h"

namespace retina {

namespace {

Network& as_network(RetinaNet& network) {
  return network;
}
Network& as_network(std::unique_ptr<Classifier>& network) {
  return *network;
}

// Throws for weights that are not finite: the result of a diverged training would look as if it
// found nothing.
void check_finite(const Checkpoint& checkpoint, const std::string& path) {
  for (const auto& [name, tensor] : checkpoint.model) {
    if (!tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>()) continue;
    throw Error(ErrorKind::kData, cat(path, ": tensor ", name, " has values that are not finite"),
                "the training diverged: evaluate an earlier checkpoint");
  }
}

// Returns the scale in the `config` of a checkpoint or an inference model, which `path` names; the
// defaults where another program's config has none. Throws kData.
ModelScale model_scale(const std::string& config_json, const std::string& path) {
  const JsonFile file = JsonFile::parse(config_json, path + ": config");
  const JsonView root = file.root();
  ModelScale scale;
  if (root.has("model")) scale.frame = ModelConfig::from_json(root.at("model")).frame();
  if (root.has("tile_px")) scale.tile_px = static_cast<int>(root.at("tile_px").as_int());
  return scale;
}

LoadedModel::Model load_network(const EvalOptions& options, const c10::Device& device,
                                LoadedModel::About& about) {
  const Checkpoint checkpoint = load_checkpoint(options.model, CheckpointPart::kModel);
  check_finite(checkpoint, options.model);
  about = {.categories = checkpoint.categories,
           .scale = model_scale(checkpoint.config_json, options.model),
           .limits = options.postprocess()};
  const auto ready = [&](auto network) {
    Network& part = as_network(network);
    use_channels_last(part);  // as in training, and faster
    part.to(device);
    return LoadedModel::Model(std::move(network));
  };
  if (model_config_of(checkpoint.config_json, options.model).task == Task::kClassification) {
    return ready(trained_classifier(checkpoint, options.model));
  }
  return ready(trained_network(checkpoint, options.model));
}

ConvertedModel load_converted(const EvalOptions& options, LoadedModel::About& about) {
  if (options.precision != Precision::kFp32) {
    throw Error(ErrorKind::kConfig,
                cat(options.model, ": --precision ", word_of(kPrecisions, options.precision),
                    ": a converted model computes in fp32 only"),
                "give --model the checkpoint that it was converted from");
  }
  ConvertedModel model(options.model);
  about = {.categories = model.header().categories,
           .scale = model_scale(model.header().config_json, options.model)};
  about.limits.score_threshold = options.score_threshold.value_or(model.header().score_threshold);
  about.limits.max_detections = options.max_detections.value_or(model.header().max_detections);
  if (model.header().task == Task::kDetection) model.check_postprocess();
  if (model.header().task == Task::kClassification) return model;  // a classifier has no thresholds
  model.set_thresholds({.score = options.score_threshold,
                        .nms = options.nms_threshold,
                        .max_detections = options.max_detections});
  return model;
}

LoadedModel::Model load(const EvalOptions& options, const c10::Device& device,
                        LoadedModel::About& about) {
  return is_onnx_file(options.model) ? LoadedModel::Model(load_converted(options, about))
                                     : load_network(options, device, about);
}

constexpr double kMostReduction = 3, kMostTileRatio = 1.5;

// Returns a text like "2.4".
std::string factor_text(double factor) {
  return shortest(std::round(10 * factor) / 10);
}

std::string whole_image_warning(const ModelScale& model, const ImageIndex& images) {
  if (images.empty()) return "";
  std::vector<ImageSize> sizes;
  for (const IndexEntry& one : images) sizes.push_back({one.width, one.height});
  const auto median = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), median, sizes.end(), [](const ImageSize& a, const ImageSize& b) {
    return std::max(a.width, a.height) < std::max(b.width, b.height);
  });
  const ImageSize seen = framed_size(*median, model.frame);
  const double factor = static_cast<double>(std::max(median->width, median->height)) /
                        std::max(seen.width, seen.height);
  if (factor <= kMostReduction) return "";
  const bool knows_tiles = model.tile_px > 0;
  const std::int64_t side =
      std::max<std::int64_t>(kLeastTilePx, knows_tiles ? model.tile_px : model.frame.min_side_px);
  return cat("images are ", factor_text(factor), " times as large as the model sees (",
             median->width, "x", median->height, " -> ", seen.width, "x", seen.height,
             "): small objects vanish; --tile ", side,
             knows_tiles ? " detects on tiles of the side that it was trained on"
                         : " detects on tiles in full resolution");
}

double distance(double ratio) {
  return std::max(ratio, 1 / ratio);
}

}  // namespace

void check_same_classes(const Categories& model, const Categories& data,
                        const std::string& subject) {
  const auto [of_model, of_data] =
      std::mismatch(model.begin(), model.end(), data.begin(), data.end(),
                    [](const Category& a, const Category& b) { return a.name == b.name; });
  if (of_model == model.end() && of_data == data.end()) return;
  throw Error(
      ErrorKind::kConfig,
      cat(subject, ": the model's classes are not the data's (got ", model.size(), ", want ",
          data.size(), "; class ", of_model - model.begin() + 1, " is ",
          of_model == model.end() ? "missing" : escaped(of_model->name), " in the model and ",
          of_data == data.end() ? "missing" : escaped(of_data->name), " in the data)"),
      "evaluate on shards packed with the training set's categories");
}

LoadedModel::LoadedModel(const EvalOptions& options, const c10::Device& device)
    : path_(options.model), model_(load(options, device, about_)) {
  release_freed_memory();  // that of the checkpoint
}

std::string LoadedModel::kind() const {
  return std::holds_alternative<ConvertedModel>(model_) ? "converted model" : "checkpoint";
}

Task LoadedModel::task() const {
  if (const auto* converted = std::get_if<ConvertedModel>(&model_)) return converted->header().task;
  return std::holds_alternative<RetinaNet>(model_) ? Task::kDetection : Task::kClassification;
}

std::vector<ClassOutcome> LoadedModel::classify_all(const ShardSet& shards, Communicator& ranks,
                                                    const DetectOptions& options) {
  if (auto* network = std::get_if<std::unique_ptr<Classifier>>(&model_)) {
    return classify(**network, shards, ranks, options);
  }
  return classify(std::get<ConvertedModel>(model_), shards, ranks, options);
}

Normalisation LoadedModel::normalisation() const {
  const auto* const network = std::get_if<RetinaNet>(&model_);
  return network != nullptr ? network->config().normalisation() : Normalisation{};
}

std::string LoadedModel::capped_ap() const {
  const PostprocessOptions usual, &limits = about_.limits;
  if (limits.score_threshold <= usual.score_threshold &&
      limits.max_detections >= int{kMaxDetectionsPerImage}) {
    return "";
  }
  return cat("AP counts the best ", limits.max_detections,
             " detections of an image above a score of ", shortest(limits.score_threshold),
             " (--max-detections, --score-threshold): the others would raise it");
}

std::vector<Detection> LoadedModel::detect_all(const PredictionInput& input,
                                               const DetectOptions& options) {
  auto* const network = std::get_if<RetinaNet>(&model_);
  std::vector<Detection> detections =
      network != nullptr ? detect(*network, input, options)
                         : detect(std::get<ConvertedModel>(model_), input, options);
  for (const Detection& one : detections) {
    const bool is_finite = std::isfinite(one.score) &&
                           std::all_of(one.bbox.begin(), one.bbox.end(),
                                       [](double number) { return std::isfinite(number); });
    if (is_finite) continue;
    throw Error(ErrorKind::kData, cat(path_, ": gives a box or a score that is not finite"),
                "evaluate another checkpoint or model");
  }
  return detections;
}

DetectOptions detect_options(const EvalOptions& options, const c10::Device& device,
                             const Communicator& ranks) {
  const DecodeThreads threads =
      choose_decode_threads(options.threads, threads_of_rank(0, ranks), device.is_cuda());
  return {.postprocess = options.postprocess(),
          .tile_merge = options.tile_merge,
          .images_per_batch = options.images_per_batch,
          .decode_threads = threads.first,
          .most_decode_threads = threads.most,
          .prefetch_batches = device.is_cuda() ? 4 : 2,  // a CPU computes longer than it decodes
          .max_images = options.max_images,
          .precision = options.precision};
}

std::function<void(std::int64_t, std::int64_t)> progress_line(const Communicator& ranks,
                                                              const char* doing, const char* unit) {
  if (!ranks.is_root()) return {};
  return [=, line = std::shared_ptr<Progress>()](std::int64_t done, std::int64_t total) mutable {
    if (!line) line = std::make_shared<Progress>(doing, total, unit);
    line->update(done);
    if (done == total) line->finish();
  };
}

std::unique_ptr<TiledSource> tiled(const RowSource& images, const EvalOptions& options) {
  if (options.tile.empty()) return nullptr;
  TilingOptions tiling{.overlap = options.tile_overlap, .with_whole = options.tile_whole};
  for (const std::int64_t side_px : options.tile) {
    tiling.sides_px.push_back(static_cast<int>(side_px));
  }
  return std::make_unique<TiledSource>(images, tiling);
}

EvalIdentity detection_identity(const EvalOptions& options, const char* input_key,
                                const std::string& input_hash) {
  const auto number = [](const auto& value) { return value ? shortest(*value) : "null"; };
  EvalIdentity identity{{"model", quoted(hex64(xxh3_file(options.model)))},
                        {input_key, quoted(input_hash)},
                        {"score-threshold", number(options.score_threshold)},
                        {"nms-threshold", number(options.nms_threshold)},
                        {"max-detections", number(options.max_detections)},
                        {"max-images", cat(options.max_images)},
                        {"draw", cat(options.draw)},
                        {"draw-score", shortest(options.draw_score)}};
  if (options.precision != Precision::kFp32) {
    identity.emplace_back("precision", quoted(word_of(kPrecisions, options.precision)));
  }
  if (!options.stretch.empty()) identity.emplace_back("stretch", quoted(options.stretch));
  if (!options.tile.empty()) {
    identity.emplace_back("tile", JsonWriter().list(options.tile).text());
    identity.emplace_back("tile-overlap", shortest(options.tile_overlap));
    identity.emplace_back("tile-whole", options.tile_whole ? "true" : "false");
  }
  if (!options.tile.empty() || !(options.tile_merge == TileMerge{})) {
    identity.emplace_back("tile-merge", quoted(word_of(kTileMergeKinds, options.tile_merge.kind)));
    identity.emplace_back("tile-match", quoted(word_of(kTileMatches, options.tile_merge.match)));
    identity.emplace_back("tile-match-threshold", shortest(options.tile_merge.threshold));
  }
  std::string formats;
  for (const std::string& format : options.output_formats) {
    formats += cat(formats.empty() ? "" : ",", format);
  }
  if (formats != word_of(kOutputFormats, OutputFormat::kCoco)) {
    identity.emplace_back(EvaluationFolder::kOutputFormat, quoted(std::as_const(formats)));
  }
  return identity;
}

std::string scale_warning(const ModelScale& model, const ImageIndex& images,
                          const std::vector<std::int64_t>& tiles) {
  if (tiles.empty()) return whole_image_warning(model, images);
  if (model.tile_px <= 0) return "";
  const auto ratio = [&](std::int64_t side) { return static_cast<double>(side) / model.tile_px; };
  const std::int64_t nearest = *std::min_element(
      tiles.begin(), tiles.end(),
      [&](std::int64_t a, std::int64_t b) { return distance(ratio(a)) < distance(ratio(b)); });
  const double factor = distance(ratio(nearest));
  if (factor <= kMostTileRatio) return "";
  return cat("--tile ", nearest, ": the model was trained on tiles of ", model.tile_px,
             " px, and sees objects ", factor_text(factor), " times as ",
             nearest > model.tile_px ? "small" : "large", " here; --tile ", model.tile_px, " fits");
}

}  // namespace retina
