// bench_link_model --measured FILE: how well the α-β model tells all-reduces that it was not fitted
// to. FILE holds lines that bench_allreduce printed on two or more numbers of ranks (others are
// skipped). Each measurement is predicted twice: by the link fitted to the other numbers of ranks,
// and by that fitted to the other sizes on the same number of ranks. One line of JSON each, then
// one with the worst errors.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/program.h"
#include "train/reduce/link_model.h"

namespace {

using namespace retina;

// Ranks -> bytes -> seconds.
using Measured = std::map<int, std::map<double, double>>;

Measured read_measured(const std::string& path, const std::string& statistic) {
  Measured measured;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '{') continue;
    const JsonFile json = JsonFile::parse(line, path);
    const JsonView root = json.root();
    if (root.at("bench").as_string() != "allreduce" || root.at("result").as_string() != "size" ||
        root.at("mode").as_string() != "ring" || root.at("type").as_string() != "float32") {
      continue;
    }
    measured[static_cast<int>(root.at("ranks").as_int())][root.at("bytes").as_double()] =
        root.at(statistic == "median" ? "seconds_median" : "seconds_min").as_double();
  }
  if (measured.size() < 2) {
    throw Error(ErrorKind::kData, cat(path, ": all-reduces on ", measured.size(),
                                      " numbers of ranks (want 2 or more)"));
  }
  return measured;
}

LinkCost fit_to(const Measured& measured) {
  std::vector<RingSamples> rings;
  for (const auto& [ranks, sizes] : measured) {
    rings.push_back({.ranks = ranks});
    for (const auto& [bytes, seconds] : sizes) rings.back().samples.push_back({bytes, seconds});
  }
  return fit_links(rings).link;
}

// Prints the prediction; returns its error.
double print(const char* fitted_to, int ranks, double bytes, double seconds, const LinkCost& link) {
  const double predicted = all_reduce_seconds(ranks, link, bytes);
  const double error = predicted / seconds - 1;
  JsonWriter json;
  json.begin_object().field("bench", "link_model").field("fitted_to", fitted_to);
  json.field("ranks", ranks).field("bytes", bytes).field("seconds_measured", seconds);
  json.field("seconds_predicted", predicted).field("relative_error", error);
  json.field("latency_seconds", link.latency_seconds);
  json.field("bytes_per_second", link.bytes_per_second);
  std::cout << json.end_object().text() << '\n';
  return std::abs(error);
}

int compare(const std::string& path, const std::string& statistic) {
  const Measured measured = read_measured(path, statistic);
  double worst_ranks = 0, worst_sizes = 0;
  for (const auto& [ranks, sizes] : measured) {
    Measured others = measured;
    others.erase(ranks);
    const LinkCost of_other_ranks = fit_to(others);
    for (const auto& [bytes, seconds] : sizes) {
      worst_ranks = std::max(
          worst_ranks, print("other numbers of ranks", ranks, bytes, seconds, of_other_ranks));
      Measured rest;
      rest[ranks] = sizes;
      rest[ranks].erase(bytes);
      if (rest[ranks].size() < 2) continue;
      worst_sizes =
          std::max(worst_sizes, print("other sizes", ranks, bytes, seconds, fit_to(rest)));
    }
  }
  JsonWriter json;
  json.begin_object().field("bench", "link_model");
  json.field("worst_by_other_numbers_of_ranks", worst_ranks);
  json.field("worst_by_other_sizes", worst_sizes);
  std::cout << json.end_object().text() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, statistic = "median";
  Cli cli("bench_link_model", "bench_link_model --measured FILE",
          "Compares the α-β model with all-reduces that it was not fitted to.");
  cli.option("measured", path, "FILE", "what bench_allreduce printed (required)");
  cli.choice("statistic", statistic, plain_choices({"median", "min"}),
             "of the repeats: the least is the link's own time where other work disturbs");
  cli.validate([&] {
    if (path.empty()) throw Error(ErrorKind::kUsage, "--measured is missing");
  });
  return run_program("bench_link_model", [&] {
    return cli.parse(argc, argv) == CliOutcome::kDone ? 0 : compare(path, statistic);
  });
}
