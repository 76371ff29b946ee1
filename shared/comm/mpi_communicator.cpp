#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/host.h"
#include "shared/comm/communicator.h"
#include "shared/comm/element_loops.h"
#include "shared/comm/mpi_library.h"
#include "shared/numeric/bfloat16.h"
#include "shared/numeric/float16.h"

namespace retina {
namespace {

struct RingBuffer {
  void* data = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  // Tag of this collective alone: if ranks call different ones nothing matches, and they wait for
  // the watch's diagnosis instead of adding data that do not belong together.
  int tag = 0;
};

constexpr std::size_t kSegmentBytes = std::size_t{64} << 10;
// Number of receives posted ahead: hides the rendezvous of one segment behind the others.
constexpr std::size_t kWindow = 16;
constexpr int kPollsBeforeSleep = 50;
constexpr std::chrono::microseconds kSleep(50);

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
      rest(post_receives() | take_one());
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
int ring_all_reduce(const RingBuffer& buffer, MPI_Op op) {
  auto ring = std::make_unique<Ring>(buffer, op);
  const int code = ring->run();
  // After an error nothing says when MPI stops writing to the buffers of receives that are still
  // posted. The job is about to end: that memory is never given back.
  if (code != MPI_SUCCESS) static_cast<void>(ring.release());
  return code;
}

// MPI counts are int: larger buffers go in pieces of this many elements.
constexpr std::size_t kPieceCount = std::size_t{1} << 30;
// Size from which our own ring is faster.
constexpr std::size_t kRingBytes = std::size_t{64} << 10;
// Piece of an ordered sum, which needs as much memory again.
constexpr std::size_t kOrderedPieceCount = std::size_t{1} << 24;

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ErrorKind::kRankFailure, cat(call, ": ", text.data()),
              "another rank died; run the same command again");
}

MPI_Datatype mpi_type(ElementType type) {
  // MPI's types, indexed by ElementType; the 16-bit ones go with an operation that reads them as
  // floats.
  const MPI_Datatype types[] = {MPI_UINT8_T, MPI_INT64_T,  MPI_FLOAT,
                                MPI_DOUBLE,  MPI_UINT16_T, MPI_UINT16_T};
  return types[static_cast<std::size_t>(type)];
}

// Calls `piece(pointer, count)` over the buffer in parts of at most `piece_count` elements.
template <class F>
void in_pieces(void* data, std::size_t count, ElementType type, const F& piece,
               std::size_t piece_count = kPieceCount) {
  auto* bytes = static_cast<char*>(data);
  for (std::size_t done = 0; done < count; done += piece_count) {
    const std::size_t part = std::min(piece_count, count - done);
    piece(bytes + done * element_size_bytes(type), static_cast<int>(part));
  }
}

// Runs as MPI_User_function over 16-bit floats: both[i] = round(in[i] op both[i]).
template <ElementType Type>
void sum_16_bit(void* in, void* both, int* count, MPI_Datatype*) {
  add(static_cast<const std::uint16_t*>(in), static_cast<std::uint16_t*>(both),
      static_cast<std::size_t>(*count), Type);
}

template <float Load(std::uint16_t)>
void max_16_bit(void* in, void* both, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint16_t*>(in);
  auto* b = static_cast<std::uint16_t*>(both);
  for (int i = 0; i < *count; ++i) b[i] = Load(a[i]) > Load(b[i]) ? a[i] : b[i];
}

// Returns a commutative operation of MPI's, which lives until MPI ends.
MPI_Op user_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  check_mpi(MPI_Op_create(function, 1, &op), "MPI_Op_create");
  return op;
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
    check_mpi(MPI_Comm_rank(node, &local_rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(node, &local_size_), "MPI_Comm_size");
    const auto own = allowed_cores();
    auto ranks = own;  // by core
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, ranks.data(), static_cast<int>(ranks.size()), MPI_INT,
                            MPI_SUM, node),
              "MPI_Allreduce");
    for (std::size_t i = 0; i < own.size(); ++i) {
      ranks_on_cores_ = std::max(ranks_on_cores_, own[i] * ranks[i]);
    }
    MPI_Comm_free(&node);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int ranks_on_cores() const override { return ranks_on_cores_; }

 protected:
  // Reduces by a ring, ours or for small buffers Open MPI's (chosen by MpiSession); both add hop by
  // hop.
  void do_all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) override {
    if (size_ > 1 && count * element_size_bytes(type) >= kRingBytes) {
      const RingBuffer buffer{.data = data,
                              .count = count,
                              .element_bytes = element_size_bytes(type),
                              .type = mpi_type(type),
                              .tag = tag_of(count, type, op)};
      return check_mpi(ring_all_reduce(buffer, operation(type, op)), "ring all-reduce");
    }
    in_pieces(data, count, type, [&](void* part, int part_count) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, part, part_count, mpi_type(type), operation(type, op),
                              MPI_COMM_WORLD),
                "MPI_Allreduce");
    });
  }

  void do_all_reduce_ordered(void* data, std::size_t count, ElementType type) override {
    in_pieces(
        data, count, type,
        [&](void* part, int part_count) { sum_piece_in_order(part, part_count, type); },
        kOrderedPieceCount);
  }

  void do_broadcast(void* data, std::size_t count, ElementType type, int root) override {
    in_pieces(data, count, type, [&](void* part, int part_count) {
      check_mpi(MPI_Bcast(part, part_count, mpi_type(type), root, MPI_COMM_WORLD), "MPI_Bcast");
    });
  }

  std::vector<std::string> do_gather(const std::string& bytes, int root) override {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
    const auto mine = static_cast<std::int64_t>(bytes.size());
    check_mpi(MPI_Gather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, root, MPI_COMM_WORLD),
              "MPI_Gather");
    // Point to point in rank order: lengths differ and may exceed the ints of MPI_Gatherv.
    std::vector<std::string> all;
    if (rank_ != root) {
      in_pieces(const_cast<char*>(bytes.data()), bytes.size(), ElementType::kUint8,
                [&](void* part, int count) {
                  check_mpi(MPI_Send(part, count, MPI_UINT8_T, root, kGatherTag, MPI_COMM_WORLD),
                            "MPI_Send");
                });
      return all;
    }
    for (int from = 0; from < size_; ++from) {
      std::string& received = all.emplace_back(bytes);
      if (from == root) continue;
      received.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]));
      in_pieces(received.data(), received.size(), ElementType::kUint8, [&](void* part, int count) {
        check_mpi(
            MPI_Recv(part, count, MPI_UINT8_T, from, kGatherTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "MPI_Recv");
      });
    }
    return all;
  }

  void do_barrier() override { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  static constexpr int kGatherTag = 1;
  static constexpr int kFirstRingTag = 2, kRingTags = 32000;  // MPI promises tags up to 32767

  // Returns the tag of the next collective over our own ring.
  int tag_of(std::size_t count, ElementType type, ReduceOp op) {
    const std::string what = cat(++ring_calls_, " ", current_label(), " ", count, " ",
                                 element_name(type), op == ReduceOp::kSum ? " sum" : " max");
    return kFirstRingTag + static_cast<int>(xxh3(what) % kRingTags);
  }

  MPI_Op operation(ElementType type, ReduceOp op) const {
    const bool sum = op == ReduceOp::kSum;
    if (type == ElementType::kFloat16) return sum ? half_sum_ : half_max_;
    if (type == ElementType::kBFloat16) return sum ? brain_sum_ : brain_max_;
    return sum ? MPI_SUM : MPI_MAX;
  }

  // Sums a piece in rank order. Rank r owns slice r: it gets that slice of every rank, adds them in
  // rank order and sends the sum to all. No element's sum depends on which slice it is in.
  void sum_piece_in_order(void* data, int count, ElementType type) {
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<int> counts(ranks), offsets(ranks), own_counts(ranks), own_offsets(ranks);
    for (int r = 0; r < size_; ++r) {
      const auto i = static_cast<std::size_t>(r);
      offsets[i] = slice_start(count, r);
      counts[i] = slice_start(count, r + 1) - offsets[i];
    }
    const auto me = static_cast<std::size_t>(rank_);
    const std::size_t own_bytes = static_cast<std::size_t>(counts[me]) * element_size_bytes(type);
    slices_.resize(ranks * own_bytes);
    std::vector<const void*> inputs;
    for (std::size_t i = 0; i < ranks; ++i) {
      own_counts[i] = counts[me];
      own_offsets[i] = static_cast<int>(i) * counts[me];
      inputs.push_back(slices_.data() + i * own_bytes);
    }
    check_mpi(MPI_Alltoallv(data, counts.data(), offsets.data(), mpi_type(type), slices_.data(),
                            own_counts.data(), own_offsets.data(), mpi_type(type), MPI_COMM_WORLD),
              "MPI_Alltoallv");
    auto* own =
        static_cast<char*>(data) + static_cast<std::size_t>(offsets[me]) * element_size_bytes(type);
    reduce_in_order(inputs, own, static_cast<std::size_t>(counts[me]), type, ReduceOp::kSum);
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts.data(),
                             offsets.data(), mpi_type(type), MPI_COMM_WORLD),
              "MPI_Allgatherv");
  }

  int slice_start(int count, int rank) const {
    return static_cast<int>(std::int64_t{count} * rank / size_);
  }

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, ranks_on_cores_ = 1;
  std::uint64_t ring_calls_ = 0;
  std::vector<char> slices_;  // of all ranks: this rank's slice
  const MPI_Op half_sum_ = user_op(sum_16_bit<ElementType::kFloat16>);
  const MPI_Op half_max_ = user_op(max_16_bit<float_from_float16>);
  const MPI_Op brain_sum_ = user_op(sum_16_bit<ElementType::kBFloat16>);
  const MPI_Op brain_max_ = user_op(max_16_bit<float_from_bfloat16>);
};

class OpenMpi : public MpiLibrary {
 public:
  void start() override {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
      throw Error(ErrorKind::kUnavailable, "MPI cannot be initialised with thread support",
                  "start the program with Open MPI 4.1's mpirun");
    }
  }
  std::unique_ptr<Communicator> make_communicator() override {
    return std::make_unique<MpiCommunicator>();
  }
  void finish() override { MPI_Finalize(); }
  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }
  std::string version() override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string version = text.data();
    return version.substr(0, version.find(','));
  }
};

}  // namespace
}  // namespace retina

extern "C" retina::MpiLibrary* retina_mpi_library() {
  static retina::OpenMpi library;
  return &library;
}
