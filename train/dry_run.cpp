#include "train/dry_run.h"

#include <iostream>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/comm/communicator.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "train/report/preview.h"
#include "train/start/initial_model.h"
#include "train/start/start_log.h"
#include "train/training_run.h"

namespace retina {

std::string forecast(Command command) {
  const TrainOptions::Length& length = command.options.length;
  if (!length.images_per_step && length.images_per_rank > 0) return "";  // ranks not known
  std::string text;
  try {
    const auto alone = make_self_communicator();
    follow_init(command.options, command.cli, *alone);
    Job job{
        .options = command.options.for_ranks(1), .effective_options = {}, .communicator = *alone};
    const std::string& resume = job.options.checkpoints.resume;
    if (job.options.resumes_file() && !path_exists(resume)) {
      throw Error(ErrorKind::kNoInput, cat("--resume ", resume, ": no such file"));
    }
    job.data.emplace(job.options);
    if (job.options.compute.device != DeviceChoice::kCuda) {  // another machine may have one
      job.device = choose_device(job.options.compute.device);
    }
    fit_to_data(job, command);
    for (const std::string& note : job.notes) text += cat(note, "\n");
    const ExistingRun there = existing_run(job);
    text += there.text;
    if (there.is_finished) return text;
    const std::int64_t steps_per_epoch = job.data->plan->steps_per_epoch();
    text += cat(length_text(job.options, steps_per_epoch), "\n");
    const std::string warning = warmup_warning(job.options, steps_per_epoch);
    if (!warning.empty()) text += cat("warning: ", warning, "\n");
    for (const std::string& known : warnings_of(*job.data)) text += cat("warning: ", known, "\n");
    job.device = choose_device(job.options.compute.device);
    try {
      text += cat(TrainingRun(job).fit_into_memory().text, "\n");
    } catch (const Error& too_little) {
      text += cat(too_little.what(), "; hint: ", too_little.hint(), "\n");
    }
  } catch (const Error& error) {
    // A file or device that another machine may have is not an error: jobs are written on machines
    // without their data.
    if (error.kind() != ErrorKind::kNoInput && error.kind() != ErrorKind::kUnavailable) throw;
    text += cat("not checked further: ", error.what(),
                error.hint().empty() ? "" : cat("; hint: ", error.hint()), "\n");
  }
  return text;
}

int preview(Command& command, Communicator& communicator) {
  Job job{.options = command.options.for_ranks(communicator.size()),
          .effective_options = {},
          .communicator = communicator};
  const TrainOptions& options = job.options;
  // An unusable output or data set ends the job before anything is drawn.
  root_first(communicator, [&] {
    if (communicator.is_root()) {
      check_may_replace(cat(options.output, "/", kPreviewFile), kPreviewTitle, "--output");
    }
    job.data.emplace(options);
  });
  fit_to_data(job, command);
  root_first(communicator, [&] {
    if (!communicator.is_root()) return;
    const std::string path = cat(options.output, "/", kPreviewFile);
    const TrainingData& data = *job.data;
    for (const std::string& note : job.notes) log_info(note);
    const ModelConfig model = options.model_config(data.train->class_count());
    const bool by_iou = options.loss.assigner == Assigner::kIou;
    const std::string page = render_preview(
        {.train = *data.train,
         .folders = options.data.train,
         .image_count = options.monitoring.preview,
         .total_steps = options.total_steps(data.plan->steps_per_epoch()),
         .plan = *data.plan,
         .augment = word_of(kAugments, options.augment_set()),
         .normalisation = model.normalisation(),
         .anchors = model.anchors(),
         .foreground_iou = by_iou ? std::optional(options.loss.match.foreground_iou) : std::nullopt,
         .threads = options.data.decode_threads,
         .all_options = job.effective_options});
    make_folder(options.output);
    write_file_atomically(path, page);
    std::cout << "preview: " << path << '\n';
  });
  return 0;
}

}  // namespace retina
