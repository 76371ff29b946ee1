#include "shared/evaluation/script_detect.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <deque>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "shared/base/error.h"
#include "shared/data/picture_source.h"
#include "shared/evaluation/detect.h"
#include "shared/evaluation/script_operators.h"
#include "shared/evaluation/visits.h"
#include "shared/watch/activity.h"

namespace retina {

struct ScriptModel::State {
  InferenceHeader header;
  torch::jit::Module module;
  at::Device device = at::kCPU;
};

ScriptModel::ScriptModel(const std::string& path, const std::string& device, bool trusted)
    : state_(std::make_unique<State>()) {
  state_->header = read_inference_header(path);
  state_->device = at::Device(device);
  if (!trusted) check_inference_file(path);
  try {
    // Only checked tensors are copied to a device.
    state_->module = torch::jit::load(path, at::Device(at::kCPU));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // a c10::Error, or an ErrorReport of the compiler
    const std::string text = error.what();
    throw Error(ErrorKind::kData,
                cat(path, ": TorchScript cannot load it (", text.substr(0, text.find('\n')), ")"),
                "convert the checkpoint again with this version's retina-convert");
  }
  if (!trusted) check_script(state_->module, path);
  state_->module.to(state_->device);
  state_->module.eval();
}

ScriptModel::~ScriptModel() = default;
ScriptModel::ScriptModel(ScriptModel&&) noexcept = default;
ScriptModel& ScriptModel::operator=(ScriptModel&&) noexcept = default;

const InferenceHeader& ScriptModel::header() const {
  return state_->header;
}

void ScriptModel::set_thresholds(const ScriptThresholds& thresholds) {
  const auto set = [&](const char* name, const c10::IValue& value) {
    if (!state_->module.hasattr(name)) {
      throw Error(ErrorKind::kConfig, cat("the converted model has no attribute ", name),
                  "evaluate with the thresholds it was converted with");
    }
    state_->module.setattr(name, value);
  };
  if (thresholds.score) set("score_threshold", *thresholds.score);
  if (thresholds.nms) set("nms_threshold", *thresholds.nms);
  if (thresholds.max_detections) set("max_detections", *thresholds.max_detections);
}

namespace {

using ScriptBatch = std::vector<std::size_t>;  // places in the index; images of one size

// Over all visited images, before ranks share them.
std::vector<ScriptBatch> plan_batches(const PictureSource& pictures, const DetectOptions& options) {
  std::vector<ScriptBatch> plan;
  std::map<std::pair<int, int>, std::size_t> open;  // (height, width) -> place in `plan`
  for (const std::size_t place : visited_places(pictures.index(), options)) {
    const IndexEntry& entry = pictures.index()[place];
    const auto [found, is_new] = open.try_emplace({entry.height, entry.width}, plan.size());
    if (is_new) plan.emplace_back();
    ScriptBatch& batch = plan[found->second];
    batch.push_back(place);
    if (batch.size() >= static_cast<std::size_t>(options.images_per_batch)) open.erase(found);
  }
  return plan;
}

struct DecodedPicture {
  std::size_t place = 0;
  std::int64_t image_id = 0;
  std::optional<FileProblem> problem{};  // left out: its pixels are black
};

struct DecodedBatch {
  std::vector<DecodedPicture> pictures;
  at::Tensor images;  // [N, 3, H, W] u8
};

DecodedBatch decode_batch(const PictureSource& pictures, const ScriptBatch& places) {
  DecodedBatch batch;
  std::vector<at::Tensor> planes;
  JpegDecoder decoder;
  Image image;
  for (const std::size_t place : places) {
    const IndexEntry& entry = pictures.index()[place];
    auto problem = pictures.decode(place, decoder, image);
    if (problem) image = Image(entry.width, entry.height);
    planes.push_back(at::from_blob(image.rgb.data(), {image.height, image.width, 3}, at::kByte)
                         .permute({2, 0, 1})
                         .clone(at::MemoryFormat::Contiguous));  // the next one reuses the memory
    batch.pictures.push_back(
        {.place = place, .image_id = entry.image_id, .problem = std::move(problem)});
  }
  batch.images = at::stack(planes);
  return batch;
}

// The model's answer for a batch, checked: from here on shapes and types are as promised.
struct Answer {
  at::Tensor boxes, scores, labels, counts;  // [N, D, 4] f32, [N, D] f32, [N, D] i64, [N] i64
};

Answer checked_answer(const c10::IValue& value, std::int64_t image_count) {
  const auto fail = [](const std::string& problem) -> void {
    throw Error(ErrorKind::kData, cat("converted model: its answer ", problem),
                "convert the checkpoint again with this version's retina-convert");
  };
  if (!value.isTuple() || value.toTupleRef().elements().size() != 4) fail("is not a tuple of four");
  std::vector<at::Tensor> parts;
  for (const c10::IValue& element : value.toTupleRef().elements()) {
    if (!element.isTensor()) fail("holds something that is not a tensor");
    parts.push_back(element.toTensor().cpu());
  }
  const Answer answer{.boxes = parts[0].to(at::kFloat).contiguous(),
                      .scores = parts[1].to(at::kFloat).contiguous(),
                      .labels = parts[2].to(at::kLong).contiguous(),
                      .counts = parts[3].to(at::kLong).contiguous()};
  if (answer.scores.dim() != 2 || answer.scores.size(0) != image_count) {
    fail("has scores of a wrong shape");
  }
  const std::int64_t limit = answer.scores.size(1);
  if (answer.boxes.sizes() != at::IntArrayRef({image_count, limit, 4}) ||
      answer.labels.sizes() != answer.scores.sizes() ||
      answer.counts.sizes() != at::IntArrayRef({image_count}) ||
      (answer.counts > limit).any().item<bool>()) {
    fail("has boxes, labels or counts of a wrong shape");
  }
  return answer;
}

void append_batch(const DecodedBatch& batch, const Answer& answer, const Categories& categories,
                  std::vector<Detection>& detections) {
  const auto class_count = static_cast<std::int64_t>(categories.size());
  const auto boxes = answer.boxes.accessor<float, 3>();
  const auto scores = answer.scores.accessor<float, 2>();
  const auto labels = answer.labels.accessor<std::int64_t, 2>();
  for (std::int64_t n = 0; n < answer.counts.size(0); ++n) {
    const DecodedPicture& picture = batch.pictures[static_cast<std::size_t>(n)];
    if (picture.problem) continue;
    const auto count = answer.counts[n].item<std::int64_t>();
    for (std::int64_t d = 0; d < count; ++d) {
      const std::int64_t label = labels[n][d];
      if (label < 0 || label >= class_count) {
        throw Error(ErrorKind::kData, cat("converted model: label out of range (got ", label,
                                          ", want 0..", class_count - 1, ")"));
      }
      const auto box = boxes[n][d];
      detections.push_back(coco_detection(picture.image_id,
                                          categories[static_cast<std::size_t>(label)].id,
                                          {box[0], box[1], box[2], box[3]}, scores[n][d]));
    }
  }
}

}  // namespace

std::vector<Detection> detect(ScriptModel& model, const PictureSource& pictures,
                              Communicator& ranks, const DetectOptions& options) {
  RETINA_CHECK(options.precision == Precision::kFp32);
  const std::vector<ScriptBatch> plan = share_of_rank(plan_batches(pictures, options), ranks);
  std::int64_t total = 0, done = 0;
  for (const ScriptBatch& batch : plan) total += static_cast<std::int64_t>(batch.size());

  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const c10::InferenceMode no_gradients;
  std::vector<Detection> detections;
  std::deque<std::future<DecodedBatch>> ahead;  // in order; each batch decodes on its own thread
  const auto most_ahead =
      static_cast<std::size_t>(std::max({1, options.decode_threads, options.most_decode_threads}));
  std::size_t next = 0;
  while (next < plan.size() || !ahead.empty()) {
    while (next < plan.size() && ahead.size() < most_ahead) {
      ahead.push_back(std::async(std::launch::async, decode_batch, std::cref(pictures),
                                 std::cref(plan[next++])));
    }
    const DecodedBatch batch = ahead.front().get();
    ahead.pop_front();
    const auto image_count = static_cast<std::int64_t>(batch.pictures.size());
    const c10::IValue value = model.state().module.forward({batch.images.to(model.state().device)});
    append_batch(batch, checked_answer(value, image_count), pictures.categories(), detections);
    for (const DecodedPicture& picture : batch.pictures) {
      if (picture.problem && options.on_left_out) {
        options.on_left_out(picture.place, *picture.problem);
      }
    }
    tell_progress(ranks);
    done += image_count;
    if (options.on_progress) options.on_progress(done, total);
  }
  return gather_detections(ranks, detections);
}

}  // namespace retina
