#include "train/app.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/stop_signal.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/comm/rank_program.h"
#include "shared/model/device.h"
#include "shared/shard/shard_set.h"
#include "train/initial_weights.h"
#include "train/options.h"
#include "train/run_dir.h"
#include "train/trainer.h"

namespace retina {
namespace {

constexpr const char* kUsage =
    "retina-train --train SHARDS [--validation SHARDS] --output RUN [options]\n"
    "mpirun -np N retina-train ...        one process a GPU, gradients by ring-allreduce";
constexpr const char* kSummary = "trains RetinaNet on shards that coco-pack wrote";

// A checkpoint to start from, with its file's name; rank 0 only.
struct Found {
  Checkpoint checkpoint;
  std::string path;
};

void check_divides(const TrainOptions& options, int rank_count) {
  if (options.images_per_step % rank_count == 0) return;
  std::string divisors;
  for (int n = 1; n <= options.images_per_step; ++n) {
    if (options.images_per_step % n == 0) divisors += cat(divisors.empty() ? "" : ", ", n);
  }
  throw Error(ErrorKind::kConfig,
              cat("--images-per-step ", options.images_per_step, ": ", rank_count,
                  " ranks do not divide it"),
              cat("use one of ", divisors, " ranks, or another --images-per-step"));
}

// The newest checkpoint of the folder that is whole; damaged ones cost a warning. Fills the books.
std::optional<Found> newest_checkpoint(RunDir& dir) {
  std::vector<CheckpointEntry> entries;
  for (const auto& name : dir.checkpoint_files()) {
    try {
      const CheckpointHeader header = read_checkpoint_header(dir.path(name));
      const JsonFile trainer = JsonFile::parse(header.trainer_json, name);
      CheckpointEntry entry{.file = name, .step = trainer.root().at("step").as_int()};
      if (trainer.root().has("ap")) entry.ap = trainer.root().at("ap").as_double();
      entry.xxh3 = hex64(check_seal(dir.path(name), "checkpoint"));
      entries.push_back(std::move(entry));
    } catch (const Error& error) {
      log_warning("skipping a damaged checkpoint: ", error.what());
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  dir.restore(entries);
  if (entries.empty()) return std::nullopt;
  const std::string path = dir.path(entries.back().file);
  return Found{load_checkpoint(path), path};
}

void check_same_data(const Found& found, const TrainOptions& options, const ShardSet& train) {
  const JsonFile trainer = JsonFile::parse(found.checkpoint.trainer_json, found.path);
  const std::string fingerprint = manifest_fingerprint(train.manifest());
  const auto differs = [&](const char* what, const std::string& was, const std::string& now) {
    if (was == now) return;
    throw Error(ErrorKind::kConfig,
                cat(found.path, ": ", what, " differs (checkpoint ", was, ", now ", now, ")"),
                "resume with the same data and options, or start afresh with --init");
  };
  differs("the training set", trainer.root().at("train_fingerprint").as_string(), fingerprint);
  differs("images-per-step", cat(trainer.root().at("images_per_step").as_int()),
          cat(options.images_per_step));
  const JsonFile config = JsonFile::parse(found.checkpoint.config_json, found.path);
  differs("the model", ModelConfig::from_json(config.root().at("model")).to_json(),
          options.model_config(train.manifest().class_count()).to_json());
}

// Rank 0 looks at the folder: what to continue from, if anything.
std::optional<Found> open_run(RunDir& dir, const TrainOptions& options, const RunConfig& config,
                              const ShardSet& train) {
  if (options.overwrite) dir.clear();
  dir.remove_leftovers();
  std::optional<Found> found;
  if (dir.has_run()) {
    if (options.resume == "never") {
      throw Error(ErrorKind::kConfig, cat(options.output, ": holds a run already"),
                  "choose another --output, --resume auto, or --overwrite");
    }
    dir.check_same_run(config);
    found = newest_checkpoint(dir);
  }
  if (!found && options.resume != "auto" && options.resume != "never") {
    found = Found{load_checkpoint(options.resume), options.resume};
  }
  if (found) check_same_data(*found, options, train);
  dir.write_config(config);
  return found;
}

// True when the checkpoint to continue from is the run's last.
bool already_finished(const std::optional<Found>& found, const TrainOptions& options,
                      const ShardSet& train) {
  if (!found) return false;
  const JsonFile trainer = JsonFile::parse(found->checkpoint.trainer_json, found->path);
  const std::int64_t per_epoch = steps_per_epoch(train.index().size(), options.images_per_step);
  return trainer.root().at("step").as_int() >= options.total_steps(per_epoch) &&
         trainer.root().at("epoch_closed").as_bool();
}

void check_validation_classes(const ShardSet& train, const ShardSet& validation) {
  const auto& a = train.manifest().categories;
  const auto& b = validation.manifest().categories;
  const bool same = std::equal(a.begin(), a.end(), b.begin(), b.end(),
                               [](const auto& x, const auto& y) { return x.name == y.name; });
  if (same) return;
  throw Error(ErrorKind::kConfig,
              cat(validation.folder(), ": classes differ from those of ", train.folder(), " (got ",
                  b.size(), ", want the same ", a.size(), " names)"),
              "pack both sets from annotation files with the same categories");
}

int train(const TrainOptions& options, const Cli& cli, Communicator& communicator) {
  std::optional<ShardSet> train_set, validation_set;
  std::unique_ptr<RunDir> dir;
  std::optional<Found> found;
  RunConfig config{.options = cli.effective()};
  c10::Device device = c10::kCPU;
  root_first(communicator, [&] {
    check_divides(options, communicator.size());
    device = choose_device(options.device, communicator.local_rank(), communicator.local_size());
    train_set.emplace(options.train);
    if (!options.validation.empty()) {
      validation_set.emplace(options.validation);
      check_validation_classes(*train_set, *validation_set);
    }
    config.train_fingerprint = manifest_fingerprint(train_set->manifest());
    if (!communicator.is_root()) return;
    dir = std::make_unique<RunDir>(options.output);
    found = open_run(*dir, options, config, *train_set);
  });
  at::set_num_threads(threads_of_rank(options.compute_threads, communicator));
  if (communicator.all_reduce_max(already_finished(found, options, *train_set) ? 1 : 0) != 0) {
    if (communicator.is_root()) {
      std::cout << options.output << ": already finished; report: " << dir->report_path() << '\n';
    }
    return 0;
  }
  const bool resumes = communicator.all_reduce_max(found ? 1 : 0) != 0;
  Trainer trainer({.options = options,
                   .effective_options = config.options,
                   .train = *train_set,
                   .validation = validation_set ? &*validation_set : nullptr,
                   .communicator = communicator,
                   .run_dir = dir.get(),
                   .device = device});
  if (resumes) {
    if (found) log_info("continuing from ", found->path);
    trainer.resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
    found.reset();
  } else if (!options.init.empty()) {
    const Checkpoint initial =
        communicator.is_root() ? load_checkpoint(options.init) : Checkpoint{};
    trainer.initialise_from(initial, options.init);
  }
  log_info("training on ", train_set->index().size(), " images with ", communicator.size(),
           communicator.size() == 1 ? " rank" : " ranks", ", device ", device_text(device));
  const int code = trainer.run();
  if (communicator.is_root() && code == 0) {
    std::cout << "done; report: " << dir->report_path() << '\n';
  }
  return code;
}

}  // namespace

int retina_train(int argc, const char* const* argv) {
  register_torch_versions();
  TrainOptions options;
  Cli cli("retina-train", kUsage, kSummary);
  declare_options(cli, options);
  return run_rank_program("retina-train", cli, argc, argv, [&](Communicator& communicator) {
    install_stop_signals();
    return train(options, cli, communicator);
  });
}

}  // namespace retina
