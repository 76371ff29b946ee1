#include "train/app.h"

#include <cstdlib>
#include <iostream>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/signals.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/job/rank_program.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"
#include "shared/ops/own_kernels.h"
#include "train/dry_run.h"
#include "train/start/fit_time.h"
#include "train/start/initial_model.h"
#include "train/start/start_log.h"
#include "train/trainer.h"

namespace retina {
namespace {

constexpr const char* kUsage =
    "retina-train --train SHARDS... [--validation SHARDS] --output RUN [options]\n"
    "mpirun -np N retina-train ...        one process per GPU, gradients by ring-allreduce\n"
    "retina-train --synthetic COUNT [options]      measures the speed, without data";
constexpr const char* kSummary =
    "trains RetinaNet, or a classifier, on shards that coco-pack wrote";

// Throws kConfig for --overwrite under retina-launch, which restarts the same command.
void check_keeps_over_restarts(const TrainOptions& options) {
  if (!options.checkpoints.overwrite || std::getenv("RETINA_LAUNCH_RESTARTS") == nullptr) return;
  throw Error(ErrorKind::kConfig, "--overwrite: each restart would start afresh",
              "give retina-launch --restarts 0, or choose another --output");
}

// Sets the weights from a checkpoint of this run, or from other weights; otherwise they stay as
// drawn by the seed.
void start_weights(TrainingRun& run, Job& job) {
  std::optional<Found>& found = job.found;
  if (job.communicator.all_reduce_max(found ? 1 : 0) != 0) {
    if (found) log_info("continuing from ", found->path);
    run.resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
    found.reset();
  } else if (!job.options.from_scratch()) {
    // A run's folder stands for its best checkpoint, also in a speed test, which opens no run.
    const std::string init =
        job.is_root() ? resolve_checkpoint(job.options.model.init) : job.options.model.init;
    run.initialise_from(job.is_root() ? load_checkpoint(init) : Checkpoint{}, init);
  }
}

void print_memory(const MemoryPlan& plan, const Job& job) {
  if (!job.is_root() || plan.text.empty()) return;
  if (plan.is_tight) {
    log_warning(plan.text);
  } else {
    log_info(plan.text);
  }
}

void stage_shards(Job& job, const TrainingRun& run) {
  StageOptions stage = job.options.data.stage;
  stage.announces = job.is_root();
  std::size_t begin = 0;  // first of the set's records in the plan's index
  for (ShardSet& set : job.data->train_shards) {
    const RecordRange records = {.begin = begin, .end = begin + set.index().size()};
    set.stage_ahead([&] { return shards_ahead(run.loading(), records); }, stage);
    begin = records.end;
  }
}

// Prints the results of a finished run on rank 0. Collective.
void print_end(const Job& job, const TrainingRun& run) {
  const std::string rates =
      job.options.data.synthetic > 0 ? run.monitor.throughput().summary(job.communicator) : "";
  if (!job.is_root()) return;
  std::cout << rates;
  if (!run.verdict().empty()) std::cout << run.verdict() << '\n';
  if (job.dir) std::cout << "done; report: " << job.dir->report_path() << '\n';
}

int train(Command& command, Communicator& communicator) {
  Job job{.options = command.options.for_ranks(communicator.size()),
          .effective_options = {},
          .communicator = communicator};
  open_job(job, command);
  const TrainOptions& options = job.options;
  // Settings of this process.
  set_tf32(false);  // the products of training have their own setting, see replica.cpp
  use_free_cores(options, job);
  // A finished run has nothing left to do.
  if (communicator.all_reduce_max(finished(job).empty() ? 0 : 1) != 0) {
    if (job.is_root()) {
      std::cout << options.output << ": already finished (" << finished(job)
                << "); report: " << job.dir->report_path() << '\n';
    }
    return 0;
  }
  if (job.device.is_cuda()) {
    replace_wrong_kernels(job.device, type_of(options.compute.precision), communicator);
  }
  if (job.is_root() && !options.monitoring.tensorboard.empty()) {
    make_folder(options.monitoring.tensorboard, "--tensorboard");
  }
  TrainingRun run(job);
  Trainer trainer(run);
  start_weights(run, job);
  print_start(job);
  print_memory(run.fit_into_memory(), job);
  stage_shards(job, run);
  // From here on a stop signal ends the run after the step in progress.
  const char* const stopping = options.writes() ? "; stopping after this step; saving a checkpoint"
                                                : "; stopping after this step";
  install_stop_signals({.asked = job.is_root() && log_level() <= LogLevel::kInfo ? stopping : ""});
  const int code = trainer.run();
  if (code == 0) print_end(job, run);
  return code;
}

}  // namespace

int retina_train(int argc, const char* const* argv) {
  register_torch_versions();
  TrainOptions options;
  Cli cli("retina-train", kUsage, kSummary);
  declare_options(cli, options);
  cli.validate([&options](const Cli&) { check_keeps_over_restarts(options); });
  Command command{.cli = cli, .options = options};
  cli.report_checked([&command] { return launcher_rank() > 0 ? "" : forecast(command); });
  return run_rank_program(
      "retina-train", cli, argc, argv,
      [&](Communicator& communicator) {
        // Before there is anything to save, a stop signal ends the program at once.
        install_stop_signals({.limit_s = 0,
                              .ended = communicator.is_root()
                                           ? " before the first step; run the same command again"
                                           : ""});
        follow_init(options, cli, communicator);
        return options.monitoring.preview > 0 ? preview(command, communicator)
                                              : train(command, communicator);
      },
      options.distribution.watch);
}

}  // namespace retina
