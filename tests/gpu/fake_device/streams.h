// What of a device's work is certain to come before what: an operation after the earlier ones of
// its stream, after what its stream waited for through an event, and after what the host had seen
// done when it launched it. Two operations on the same memory, one of them to write, must be in
// such an order, whatever the order is in which they run here: the same rule as ThreadSanitizer's
// (vector clocks, Mattern 1989), with streams for threads and allocations for addresses.
//
// All threads of the host count as one: what one has seen, all have.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace retina::fake_device {

using StreamId = std::int64_t;
// How many operations of each stream are done for certain.
using Clock = std::map<StreamId, std::int64_t>;

struct Operation {
  StreamId stream = 0;
  std::int64_t place = 0;  // in its stream, from 1; 0: none
  const char* name = "";   // outlives all
};

// Memory that was allocated at once.
struct Block {
  std::size_t bytes = 0;
  StreamId home = 0;  // whose later allocations may get it, without a wait, once it is freed
  Operation written = {};
  std::map<StreamId, Operation> read = {};  // since then, the last of each stream
  std::set<StreamId> recorded = {};         // that it is kept for when it is freed
};

class Streams {
 public:
  // The next operation of a stream.
  Operation begin(StreamId stream, const char* name);
  // What is done when the last operation of `stream` so far is.
  const Clock& reached(StreamId stream);
  // `stream` goes on after what is done at `clock`.
  void wait(StreamId stream, const Clock& clock);
  // The host has seen that.
  void seen(const Clock& clock);
  void seen_all();

  // Whether the host has seen that it is done.
  bool is_done(const Operation& operation) const;
  bool is_done(const Clock& clock) const;

  // Notes it; what is wrong with it, or "".
  std::string read(Block& block, const Operation& operation);
  std::string write(Block& block, const Operation& operation);
  std::string free(const Block& block);

 private:
  bool comes_before(const Operation& earlier, StreamId stream);

  std::map<StreamId, Clock> clocks_;
  Clock host_;
};

}  // namespace retina::fake_device
