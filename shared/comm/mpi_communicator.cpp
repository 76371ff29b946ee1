#include <mpi.h>

#include <algorithm>
#include <array>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/comm/communicator.h"
#include "shared/comm/element_loops.h"
#include "shared/comm/mpi_library.h"
#include "shared/comm/mpi_ring.h"
#include "shared/numeric/bfloat16.h"
#include "shared/numeric/float16.h"

namespace retina {
namespace {

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
    MPI_Comm_free(&node);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

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

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
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
