#include "tests/e2e/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "shared/base/file.h"
#include "tests/support/child_process.h"
#include "tests/support/classes/class_set.h"
#include "tests/support/scenes/data_set.h"

namespace retina {
namespace {

using Words = std::vector<std::string>;

Words network_words(Task task) {
  if (task == Task::kClassification) {
    return words("--task classify --backbone cifar-cnn --images-per-step 6");
  }
  return words(
      "--images-per-step 4 --backbone resnet18 --min-side 64 --max-side 96 "
      "--anchor-sizes 16,32,64,128,256 --clip-norm 10");
}

}  // namespace

Words words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words small_train_command(const std::string& shards, const std::string& run, int steps,
                          const Words& more, Task task) {
  const Words command =
      joined({"retina-train", "--train", shards, "--output", run, "--steps", std::to_string(steps)},
             words("--lr 0.001 --warmup-steps 2 --compute-threads 1 --threads 1 "
                   "--device cpu"));
  // Nothing but what is given, unless a test asks for more.
  const bool names_recipe = std::find(more.begin(), more.end(), "--recipe") != more.end();
  const Words all = joined(joined(command, network_words(task)), more);
  return names_recipe ? all : joined(all, {"--recipe", "none"});
}

void set_value(Words& command, const std::string& option, const std::string& value) {
  const auto place = std::find(command.begin(), command.end(), option);
  if (place == command.end()) throw std::logic_error(option + " is not there");
  *(place + 1) = value;
}

Job::Job(Task task) : task_(task) {
  if (task == Task::kClassification) {
    classes::write_class_set({.output = folder_ / "images",
                              .layout = classes::ClassLayout::kFolders,
                              .train_count = 12,
                              .validation_count = 10,
                              .side_px = 200});
  } else {
    scenes::write_data_set(
        {.output = folder_ / "scenes", .train_count = 12, .validation_count = 6});
  }
  for (const std::string split : {"train", "val"}) {
    const ProcessResult packed = run_process(pack_command(split, folder_ / ("shards/" + split)));
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
  }
}

Words Job::pack_command(const std::string& split, const std::string& output,
                        const Words& more) const {
  const Words pack = {"coco-pack", "--output", output};
  const Words source =
      task_ == Task::kClassification
          ? Words{"--format", "folders", "--images", folder_ / ("images/" + split)}
          : Words{"--annotations",
                  folder_ / ("scenes/annotations/instances_" + split + "2017.json"), "--images",
                  folder_ / ("scenes/images/" + split + "2017")};
  return joined(joined(pack, source), more);
}

Words Job::train_command(const std::string& run, int steps, const Words& more) const {
  return small_train_command(train_shards(), run, steps, more, task_);
}

ProcessResult run_on(int ranks, const Words& command) {
  return run_process(ranks == 1 ? command : under_mpirun(ranks, command));
}

std::vector<JsonFile> metric_lines(const std::string& run, const char* key) {
  std::vector<JsonFile> found;
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    JsonFile json = JsonFile::parse(line, run);
    if (json.root().has(key)) found.push_back(std::move(json));
  }
  return found;
}

std::string last_validation_line(const std::string& run) {
  const std::string text = read_file(run + "/metrics.jsonl");
  const std::size_t begin = text.rfind("{\"", text.rfind("\"validation\""));
  return text.substr(begin, text.find('\n', begin) - begin);
}

double first_step(const std::string& run, const char* metric) {
  return metric_lines(run, "step_ms").at(0).root().at(metric).as_double();
}

std::size_t occurrences(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::int64_t steps_logged(const std::string& run) {
  const std::string path = run + "/metrics.jsonl";
  if (!path_exists(path)) return 0;
  std::istringstream lines(read_file(path));
  std::int64_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"step_ms\"") != std::string::npos) ++steps;
  }
  return steps;
}

std::string last_checkpoint(const std::string& run) {
  const std::string path = run + "/checkpoints.json";
  if (!path_exists(path)) return "";
  return run + "/" + JsonFile::read(path).root().at("last").as_string();
}

}  // namespace retina
