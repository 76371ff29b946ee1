#include "shared/evaluation/predict/batches.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/comm/activity.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/loader.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/ranks.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/model/network.h"
#include "shared/ops/image_upload.h"

namespace retina {
namespace {

// Default on a GPU, which is idle much of the time with one image.
constexpr int kImagesPerBatchOnGpu = 8;
// Limit of decoded images in page-locked memory; several batches of them are on their way to a GPU.
constexpr std::size_t kStoredBytesPerBatch = std::size_t{128} << 20;

// Form in which a model takes its images.
struct ModelInput {
  EvaluationPlanOptions plan = {};
  PixelForm form = PixelForm::kNormalised;
  c10::Device device = c10::kCPU;
};

void run_batches(const ModelInput& model, const PredictionInput& input,
                 const DetectOptions& options, const std::function<void(const Batch&)>& use) {
  const PhaseScope phase(input.ranks.activity(), Phase::kValidate);
  const at::NoGradGuard no_gradients;
  const bool on_gpu = model.device.is_cuda();
  EvaluationPlanOptions planning = model.plan;
  planning.max_images = options.max_images;
  planning.images_per_batch = options.images_per_batch;
  if (planning.images_per_batch == 0 && on_gpu) planning.images_per_batch = kImagesPerBatchOnGpu;
  if (model.form == PixelForm::kStored) planning.stored_bytes_per_batch = kStoredBytesPerBatch;
  planning.keeps_images_apart = input.samples.shares_work();
  const std::vector<BatchRequest> whole_plan = plan_evaluation(input.samples.index(), planning);
  const std::vector<BatchRequest> plan = input.samples.shares_work()
                                             ? run_of_rank(whole_plan, input.ranks)
                                             : share_of_rank(whole_plan, input.ranks);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());

  BatchLoader loader(input.samples,
                     {.threads = options.decode_threads,
                      .most_threads = options.most_decode_threads,
                      .prefetch_batches = options.prefetch_batches,
                      .form = model.form,
                      .allocate = on_gpu ? allocate_pinned : allocate_plain},
                     [&plan, next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
                       if (next == plan.size()) return std::nullopt;
                       return plan[next++];
                     });
  while (!(options.should_stop && options.should_stop())) {
    const std::optional<Batch> batch = loader.next(options.should_stop);
    if (!batch) break;
    use(*batch);
    for (const Sample& sample : batch->samples) {
      if (sample.problem && options.on_skipped) {
        options.on_skipped(sample.slot.record, *sample.problem);
      }
    }
    report_progress(input.ranks);
    done += static_cast<std::int64_t>(batch->samples.size());
    if (options.on_progress) options.on_progress(done, total);
  }
}

// Throws if an image does not fit a model that was made for one size.
void check_sizes(const ConvertedModel& model, const PredictionInput& input,
                 std::int64_t max_images) {
  const std::optional<PixelSize>& image = model.header().form.image;
  if (!image) return;
  const ImageIndex& index = input.samples.index();
  for (const std::size_t place : visited_places(index, max_images)) {
    const IndexEntry entry = index[place];
    if (entry.height == image->height && entry.width == image->width) continue;
    throw Error(
        ErrorKind::kConfig,
        cat(model.path(), ": takes images of ", image->height, "x", image->width, " only (",
            image_name(entry), " has ", entry.height, "x", entry.width, ", height first)"),
        "evaluate a model that was converted without --onnx-static, or images of that size alone");
  }
}

}  // namespace

void for_each_batch(Network& network, const PredictionInput& input, const DetectOptions& options,
                    const UseBatch& use) {
  const ModelConfig& config = network.config();
  const auto class_count = static_cast<int>(input.categories.size());
  RETINA_CHECK(config.class_count == class_count, "network of ", config.class_count,
               " classes, data of ", class_count);
  const EvaluationMode evaluation_mode(network);
  const c10::Device device = network.device();
  ImageUpload upload(device, config.normalisation(), type_of(options.precision));
  run_batches({.plan = {.frame = config.frame()},
               .form = device.is_cuda() ? PixelForm::kStored : PixelForm::kNormalised,
               .device = device},
              input, options, [&](const Batch& batch) { use(batch, upload.images(batch)); });
}

void for_each_batch(const ConvertedModel& model, const PredictionInput& input,
                    const DetectOptions& options, const UseBatch& use) {
  RETINA_CHECK(options.precision == Precision::kFp32);
  check_sizes(model, input, options.max_images);
  run_batches({.plan = {.keeps_sizes = true}, .form = PixelForm::kStored}, input, options,
              [&](const Batch& batch) {
                const Sample& any = batch.samples.front();  // all share its size
                use(batch, at::from_blob(batch.stored.get(),
                                         {static_cast<std::int64_t>(batch.samples.size()),
                                          any.original_height_px, any.original_width_px, 3},
                                         at::kByte)
                               .permute({0, 3, 1, 2})
                               .contiguous());
              });
}

}  // namespace retina
