#include "shared/evaluation/script_detect.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "shared/base/error.h"
#include "shared/data/loader.h"
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

// Batches of pictures of one size, which they keep: over all visited images, before ranks share
// them.
std::vector<BatchRequest> plan_batches(const PictureSource& pictures,
                                       const DetectOptions& options) {
  std::vector<BatchRequest> plan;
  std::map<std::pair<int, int>, std::size_t> open;  // (height, width) -> place in `plan`
  for (const std::size_t place : visited_places(pictures.index(), options)) {
    const IndexEntry& entry = pictures.index()[place];
    const auto [found, is_new] = open.try_emplace({entry.height, entry.width}, plan.size());
    if (is_new) {
      plan.push_back({.min_side_px = std::min(entry.width, entry.height),
                      .max_side_px = std::max(entry.width, entry.height),
                      .padded_width_px = padded_side_px(entry.width),
                      .padded_height_px = padded_side_px(entry.height)});
    }
    std::vector<Slot>& slots = plan[found->second].slots;
    slots.push_back({.record = place});
    if (slots.size() >= static_cast<std::size_t>(options.images_per_batch)) open.erase(found);
  }
  return plan;
}

// [N, 3, H, W] u8 on `device`.
at::Tensor image_tensor(const Batch& batch, const at::Device& device) {
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  const Sample& any = batch.samples.front();  // all have its size
  return at::from_blob(batch.stored.get(),
                       {count, any.original_height_px, any.original_width_px, 3}, at::kByte)
      .to(device)
      .permute({0, 3, 1, 2})
      .contiguous();
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

void append_batch(const Batch& batch, const Answer& answer, const Categories& categories,
                  std::vector<Detection>& detections) {
  const auto class_count = static_cast<std::int64_t>(categories.size());
  const auto boxes = answer.boxes.accessor<float, 3>();
  const auto scores = answer.scores.accessor<float, 2>();
  const auto labels = answer.labels.accessor<std::int64_t, 2>();
  for (std::int64_t n = 0; n < answer.counts.size(0); ++n) {
    const Sample& sample = batch.samples[static_cast<std::size_t>(n)];
    if (sample.problem) continue;
    const auto count = answer.counts[n].item<std::int64_t>();
    for (std::int64_t d = 0; d < count; ++d) {
      const std::int64_t label = labels[n][d];
      if (label < 0 || label >= class_count) {
        throw Error(ErrorKind::kData, cat("converted model: label out of range (got ", label,
                                          ", want 0..", class_count - 1, ")"));
      }
      const auto box = boxes[n][d];
      detections.push_back(coco_detection(sample.image_id,
                                          categories[static_cast<std::size_t>(label)].id,
                                          {box[0], box[1], box[2], box[3]}, scores[n][d]));
    }
  }
}

}  // namespace

std::vector<Detection> detect(ScriptModel& model, const PictureSource& pictures,
                              Communicator& ranks, const DetectOptions& options) {
  RETINA_CHECK(options.precision == Precision::kFp32);
  const std::vector<BatchRequest> plan = share_of_rank(plan_batches(pictures, options), ranks);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());

  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const c10::InferenceMode no_gradients;
  std::vector<Detection> detections;
  const PictureSamples source(pictures, {});
  LoaderOptions loading = loader_options(options, model.state().device);
  loading.form = PixelForm::kStored;  // the model resizes and normalises
  BatchLoader loader(source, loading, one_after_another(plan));
  while (const auto batch = loader.next()) {
    const auto image_count = static_cast<std::int64_t>(batch->samples.size());
    const c10::IValue value =
        model.state().module.forward({image_tensor(*batch, model.state().device)});
    append_batch(*batch, checked_answer(value, image_count), pictures.categories(), detections);
    for (const Sample& sample : batch->samples) {
      if (sample.problem && options.on_left_out) {
        options.on_left_out(sample.slot.record, *sample.problem);
      }
    }
    tell_progress(ranks);
    done += image_count;
    if (options.on_progress) options.on_progress(done, total);
  }
  return gather_detections(ranks, detections);
}

}  // namespace retina
