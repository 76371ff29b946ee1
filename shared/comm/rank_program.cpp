#include "shared/comm/rank_program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/program.h"
#include "shared/base/version.h"

namespace retina {

int run_rank_program(const std::string& name, Cli& cli, int argc, const char* const* argv,
                     const std::function<int(Communicator&)>& body) {
  register_library_version("MPI", mpi_library_version());
  std::optional<MpiSession> session;
  return run_program(
      name,
      [&] {
        try {
          if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
        } catch (const Error& error) {
          if (launcher_rank() > 0) return exit_code(error.kind());
          throw;
        }
        session.emplace();
        const auto communicator = make_communicator(*session);
        if (!communicator->is_root()) {
          set_log_name(cat(name, "[", communicator->rank(), "]"));
          set_log_level(std::max(log_level(), LogLevel::kWarning));
        }
        const int code = body(*communicator);
        session->finish();
        return code;
      },
      [&](int code) {
        if (session) session->abort(code);
      });
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

void check_rank_count(int expected, const Communicator& communicator) {
  if (expected == 0 || expected == communicator.size()) return;
  throw Error(ErrorKind::kConfig,
              cat("--expect-ranks ", expected, ": the launcher started ", communicator.size(),
                  communicator.size() == 1 ? " rank" : " ranks"),
              "check the launcher's -np, its host file and the nodes that answered");
}

int threads_of_rank(int wanted, const Communicator& communicator) {
  if (wanted > 0) return wanted;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / communicator.local_size());
}

}  // namespace retina
