// The seam between ranks: collectives over pointer + count + type, no LibTorch. Back ends: `self`
// (one process) and MPI, between which `MpiSession` chooses, and NCCL (train/reduce). All ranks
// must call the same collectives in the same order with the same counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/comm/activity.h"
#include "shared/comm/comm_stats.h"
#include "shared/comm/element_type.h"

namespace retina {

// Runs collectives. Not thread-safe: one thread calls it. A failure of another rank throws
// Error{kRankFailure}, wrong arguments (a root that is not a rank, no buffer) throw
// Error{kInternal} before anything is sent.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // this process, 0..size()-1
  virtual int size() const = 0;  // processes in the run
  // This process's place among the run's processes on its node, and their number.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // How many of them, this one included, may run on its cores (on the core that has the most).
  virtual int ranks_on_cores() const { return local_size(); }

  // Reduces in place: data[i] = op over ranks of data[i]. Every rank gets the same bits; with 3
  // ranks or more those of a floating-point sum depend on the algorithm and on how the data is cut
  // into calls. Integers wrap. kMax accepts no NaN: over MPI some ranks could get it and others
  // another value.
  void all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op);

  // Sums in place and in rank order: data[i] = (..(rank 0's + rank 1's) + ..) + rank n-1's data[i],
  // whatever the back end and however the data is cut into calls. Sends 2(n-1)/n of the bytes a
  // rank, as the ring does, and needs memory for a copy of the data.
  void all_reduce_ordered(void* data, std::size_t count, ElementType type);

  // Copies `root`'s data to every rank, in place.
  void broadcast(void* data, std::size_t count, ElementType type, int root);

  // Returns all ranks' bytes in rank order on `root`, nothing elsewhere. Lengths may differ.
  std::vector<std::string> gather(const std::string& bytes, int root);

  void barrier();

  // Returns calls, bytes and time of the collectives that this object has finished.
  const CommStats& stats() const { return stats_; }

  // Names the next collective, e.g. "bucket 5", for the message that says which ranks never entered
  // it. The name must be the same on all ranks.
  void label(std::string_view name) { label_ = name; }

  // Reports each collective to `activity`, which outlives this object, from now on. One that fails
  // because of another rank waits in `await_diagnosis`, which may end this process, before it
  // throws: MPI knows that it failed, the watch knows which rank is the cause. About a microsecond
  // each.
  void report_to(Activity& activity, std::function<void()> await_diagnosis = {});
  // Returns the activity to report to (PhaseScope in activity.h); null outside run_rank_program.
  Activity* activity() const { return activity_; }
  // Waits for the watch's diagnosis of a failure outside this object that another rank caused
  // (NCCL); the diagnosis ends this process. Returns if there is none within the limits.
  void await_diagnosis() const {
    if (await_diagnosis_) await_diagnosis_();
  }

  bool is_root() const { return rank() == 0; }
  // Shorthands for the collectives above.
  std::int64_t all_reduce_max(std::int64_t value);
  std::int64_t all_reduce_sum(std::int64_t value);
  std::string broadcast(const std::string& bytes, int root);

 protected:
  // Run the back end's collectives; their arguments have been checked.
  virtual void do_all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) = 0;
  virtual void do_all_reduce_ordered(void* data, std::size_t count, ElementType type) = 0;
  virtual void do_broadcast(void* data, std::size_t count, ElementType type, int root) = 0;
  virtual std::vector<std::string> do_gather(const std::string& bytes, int root) = 0;
  virtual void do_barrier() = 0;
  // Returns the time for `stats()`; by default from the machine's monotonic clock.
  virtual double clock_seconds() const;
  // Returns the label of the collective that is running.
  const std::string& current_label() const { return label_; }

 private:
  // Runs the back end's `call`: reports it, counts it and measures its time.
  void perform(Operation operation, OperationStats& stats, const std::function<void()>& call);
  void check_root(int root) const;

  CommStats stats_;
  std::string label_;
  Activity* activity_ = nullptr;
  std::function<void()> await_diagnosis_;
};

// Returns true if a launcher that Open MPI can reach (mpirun, srun --mpi=pmix, a batch service)
// started this process as a rank.
bool launched_as_rank();

// Returns the rank that the launcher gave this process, before MPI is initialised; -1 without a
// launcher.
int launcher_rank();

// Returns this process's place among the ranks of its node; -1 if the launcher does not give it.
int launcher_local_rank();

class MpiLibrary;

// Holds MPI for the life of the process: initialised by the constructor if `launched_as_rank()`,
// finalised by `finish()` at a normal end only. Finalising while other ranks wait in a collective
// would hang the job, so an error ends with `abort` instead.
class MpiSession {
 public:
  // Throws Error{kUnavailable} if there should be ranks and Open MPI cannot be loaded or started.
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession() = default;

  // Returns the MPI back end if `launched_as_rank()`, else the one for a single process.
  std::unique_ptr<Communicator> make_communicator() const;
  // Ends MPI normally; collective.
  void finish();
  // Ends all ranks with this exit code. Returns if MPI is not active.
  void abort(int code);

 private:
  MpiLibrary* library_ = nullptr;  // null for a single process
};

// Returns the single-process back end, for tests and tools.
std::unique_ptr<Communicator> make_self_communicator();

// Returns name and version of the MPI library, or why there is none, for --version. Loads it.
std::string mpi_library_version();

// Returns ranks on one line for people: "3", "2, 3", "0, 8-15": three and more in a row are a
// range. `ranks` ascend.
std::string rank_ranges(const std::vector<int>& ranks);

}  // namespace retina
