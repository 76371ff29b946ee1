// The ring all-reduce over MPI's point-to-point messages, for large buffers: a part of
// mpi_communicator.cpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

namespace retina {

struct RingBuffer {
  void* data = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  // Tag of this collective alone: if ranks call different ones nothing matches, and they wait for
  // the watch's diagnosis instead of adding data that do not belong together.
  int tag = 0;
};

inline constexpr std::size_t kSegmentBytes = std::size_t{64} << 10;
// Number of receives posted ahead: hides the rendezvous of one segment behind the others.
inline constexpr std::size_t kWindow = 16;
inline constexpr int kPollsBeforeSleep = 50;
inline constexpr std::chrono::microseconds kSleep(50);

// Runs the ring. In step s = 0..2n-3 rank r sends chunk r-s and receives chunk r-s-1 (mod n), which
// it sends in the next step. The first n-1 steps add, the others copy. Message q is segment q mod S
// of step q / S.
class Ring {
 public:
  Ring(const RingBuffer& buffer, MPI_Op op) : buffer_(buffer), op_(op) {
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = static_cast<std::size_t>(rank);
    ranks_ = static_cast<std::size_t>(size);
    const std::size_t chunk_bytes = (buffer.count / ranks_ + 1) * buffer.element_bytes;
    segments_ = (chunk_bytes + kSegmentBytes - 1) / kSegmentBytes;
    messages_ = 2 * (ranks_ - 1) * segments_;
    sends_.assign(messages_, MPI_REQUEST_NULL);
    receives_.fill(MPI_REQUEST_NULL);
    const std::size_t most = chunk_bytes / segments_ + 2 * buffer.element_bytes;
    for (auto& space : spaces_) space.resize(most);
  }

  int run() {
    for (std::size_t q = 0; q < segments_; ++q) send(q);
    while (error_ == MPI_SUCCESS && done_ < messages_) {
      const bool moved = post_receives() | take_one();
      rest(moved);
    }
    int all_sent = 0;
    while (error_ == MPI_SUCCESS && all_sent == 0) {
      note(MPI_Testall(static_cast<int>(messages_), sends_.data(), &all_sent, MPI_STATUSES_IGNORE));
      rest(all_sent != 0);
    }
    return error_;
  }

 private:
  struct Part {
    char* data;
    int count;
  };

  bool adds(std::size_t message) const { return message / segments_ < ranks_ - 1; }

  // Returns a part of the chunk that `rank_ - steps` names.
  Part part(std::size_t steps, std::size_t segment) const {
    const std::size_t chunk = (rank_ + 2 * ranks_ - steps) % ranks_;
    const std::size_t begin = buffer_.count * chunk / ranks_;
    const std::size_t length = buffer_.count * (chunk + 1) / ranks_ - begin;
    const std::size_t from = length * segment / segments_, to = length * (segment + 1) / segments_;
    return {static_cast<char*>(buffer_.data) + (begin + from) * buffer_.element_bytes,
            static_cast<int>(to - from)};
  }
  Part sent(std::size_t message) const { return part(message / segments_, message % segments_); }
  Part received(std::size_t message) const {
    return part(message / segments_ + 1, message % segments_);
  }

  void note(int code) {
    if (error_ == MPI_SUCCESS) error_ = code;
  }

  void send(std::size_t message) {
    const Part part = sent(message);
    note(MPI_Isend(part.data, part.count, buffer_.type, static_cast<int>((rank_ + 1) % ranks_),
                   buffer_.tag, MPI_COMM_WORLD, &sends_[message]));
  }

  bool post_receives() {
    bool posted = false;
    while (posted_ < messages_ && posted_ < done_ + kWindow) {
      const Part part = received(posted_);
      void* place = spaces_[posted_ % kWindow].data();
      if (!adds(posted_)) {
        // The segment's place is added to in step s - n and sent from in the next: not before both
        // are over. With few segments the window reaches further than that.
        if (posted_ >= done_ + ranks_ * segments_) break;
        int free = 0;
        note(MPI_Test(&sends_[posted_ + segments_ - ranks_ * segments_], &free, MPI_STATUS_IGNORE));
        if (free == 0) break;
        place = part.data;
      }
      note(MPI_Irecv(place, part.count, buffer_.type,
                     static_cast<int>((rank_ + ranks_ - 1) % ranks_), buffer_.tag, MPI_COMM_WORLD,
                     &receives_[posted_ % kWindow]));
      ++posted_;
      posted = true;
    }
    return posted;
  }

  bool take_one() {
    if (done_ == posted_) return false;
    int here = 0;
    note(MPI_Test(&receives_[done_ % kWindow], &here, MPI_STATUS_IGNORE));
    if (here == 0) return false;
    if (adds(done_)) {
      const Part part = received(done_);
      note(MPI_Reduce_local(spaces_[done_ % kWindow].data(), part.data, part.count, buffer_.type,
                            op_));
    }
    if (done_ + segments_ < messages_) send(done_ + segments_);
    ++done_;
    return true;
  }

  void rest(bool moved) {
    idle_polls_ = moved ? 0 : idle_polls_ + 1;
    if (idle_polls_ > kPollsBeforeSleep) std::this_thread::sleep_for(kSleep);
  }

  const RingBuffer buffer_;
  const MPI_Op op_;
  std::size_t rank_ = 0, ranks_ = 1;
  std::size_t segments_ = 1;  // of a chunk
  std::size_t messages_ = 0;  // each way
  std::vector<MPI_Request> sends_;
  std::array<MPI_Request, kWindow> receives_;
  std::array<std::vector<char>, kWindow> spaces_;  // for data to be added
  std::size_t posted_ = 0, done_ = 0;              // receives
  int idle_polls_ = 0;
  int error_ = MPI_SUCCESS;
};

// Reduces in place over MPI_COMM_WORLD: reduce-scatter, then all-gather, 2(n-1)/n of the bytes a
// rank (Patarasu & Yuan 2009, "Bandwidth optimal all-reduce algorithms"), in segments, so that
// adding and both directions of the links are busy at once. While nothing arrives the thread
// sleeps: Open MPI's own collectives poll, and take a core from the threads that compute.
// Collective. Returns MPI's error code.
inline int ring_all_reduce(const RingBuffer& buffer, MPI_Op op) {
  auto ring = std::make_unique<Ring>(buffer, op);
  const int code = ring->run();
  // After an error nothing says when MPI stops writing to the buffers of receives that are still
  // posted. The job is about to end: that memory is never given back.
  if (code != MPI_SUCCESS) static_cast<void>(ring.release());
  return code;
}

}  // namespace retina
