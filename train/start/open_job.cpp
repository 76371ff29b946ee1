#include "train/start/open_job.h"

#include "shared/base/error.h"
#include "shared/job/rank_gpus.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"

namespace retina {
namespace {

void check_share(const TrainOptions& options, int rank_count) {
  if (rank_count <= options.step_images()) return;
  throw Error(ErrorKind::kConfig,
              cat("--images-per-step ", options.step_images(), ": too few for ", rank_count,
                  " ranks, each needs one image per step"),
              cat("start at most ", counted(options.step_images(), "rank"),
                  ", or choose another --images-per-step"));
}

// Throws kUnavailable when ranks differ: --device auto decides on each rank, and a node whose
// driver is broken would use its CPUs.
void check_same_device(const c10::Device& device, Communicator& communicator) {
  const std::int64_t with_gpu = communicator.all_reduce_sum(device.is_cuda() ? 1 : 0);
  if (with_gpu == 0 || with_gpu == communicator.size()) return;
  std::string without;
  const std::string own = device.is_cuda() ? "" : cat(communicator.rank());
  for (const std::string& rank : communicator.gather(own, 0)) {
    if (!rank.empty()) without += cat(without.empty() ? "" : ", ", rank);
  }
  const bool lacks_one = communicator.size() - with_gpu == 1;
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!communicator.is_root()) communicator.barrier();
  throw Error(ErrorKind::kUnavailable,
              cat("--device: ", lacks_one ? "rank " : "ranks ", without, " (of ",
                  communicator.size(), lacks_one ? ") has no GPU" : ") have no GPU"),
              "check nvidia-smi on that node, or give --device cpu");
}

}  // namespace

void fit_to_data(Job& job, Command& command) {
  Communicator& communicator = job.communicator;
  std::string decisions;
  if (job.is_root()) {
    job.notes = decide_defaults(command.cli, command.options, job);
    decisions = command.cli.decisions();
  }
  command.cli.take_decisions(communicator.broadcast(decisions, 0));
  command.options = command.options.for_ranks(communicator.size());
  command.cli.check();
  root_first(communicator, [&] { check_share(command.options, communicator.size()); });
  job.options = command.options;
  job.command = &command;
  job.effective_options = command.cli.effective();
  job.data->make_plan(job.options);
}

void open_job(Job& job, Command& command) {
  Communicator& communicator = job.communicator;
  const TrainOptions& options = job.options;
  const std::vector<RankGpus> gpus = gpus_of_ranks(communicator, visible_gpus());
  root_first(communicator, [&] {
    check_rank_count(options.distribution.expect_ranks, communicator);
    check_share(options, communicator.size());
    job.device = choose_device(options.compute.device);
    if (job.device.is_cuda()) {
      job.device.set_index(static_cast<c10::DeviceIndex>(gpu_of_rank(gpus, communicator.rank())));
    }
    job.data.emplace(options);
  });
  fit_to_data(job, command);
  root_first(communicator, [&] {
    if (job.is_root() && options.writes()) open_run(job);
  });
  check_same_device(job.device, communicator);
}

}  // namespace retina
