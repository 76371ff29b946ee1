#include "shared/job/rank_gpus.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/host.h"

namespace retina {
namespace {

[[noreturn]] void refuse(const std::vector<RankGpus>& job, const std::string& host) {
  std::size_t rank_count = 0;
  std::set<std::string> gpus;
  for (const RankGpus& one : job) {
    if (one.host != host) continue;
    ++rank_count;
    gpus.insert(one.ids.begin(), one.ids.end());
  }
  throw Error(ErrorKind::kConfig,
              cat("this node has ", rank_count, " ranks and ", gpus.size(),
                  gpus.size() == 1 ? " GPU" : " GPUs", " (want one GPU per rank)"),
              "start fewer ranks on each node, or use --device cpu");
}

}  // namespace

std::vector<RankGpus> gpus_of_ranks(Communicator& communicator,
                                    const std::vector<std::string>& own_ids) {
  // One line a rank: host and ids.
  std::string own = host_name();
  for (const std::string& id : own_ids) own += cat('\t', id);
  std::string lines;
  for (const std::string& line : communicator.gather(own, 0)) lines += cat(line, '\n');
  std::istringstream all(communicator.broadcast(lines, 0));
  std::vector<RankGpus> job;
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    RankGpus& rank = job.emplace_back();
    std::getline(words, rank.host, '\t');
    for (std::string id; std::getline(words, id, '\t');) rank.ids.push_back(id);
  }
  return job;
}

int gpu_of_rank(const std::vector<RankGpus>& job, int rank) {
  std::set<std::pair<std::string, std::string>> taken;  // host and id
  int number = -1;
  for (int i = 0; i <= rank; ++i) {
    const auto& [host, ids] = job.at(static_cast<std::size_t>(i));
    const auto free = std::find_if(ids.begin(), ids.end(), [&](const std::string& id) {
      return !taken.contains({host, id});
    });
    if (free == ids.end() && !ids.empty() && i == rank) refuse(job, host);
    number = free == ids.end() ? -1 : static_cast<int>(free - ids.begin());
    if (number >= 0) taken.emplace(host, *free);
  }
  return number;
}

}  // namespace retina
