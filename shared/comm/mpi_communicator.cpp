#include "shared/comm/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>

#include "shared/base/error.h"

namespace retina {
namespace {

// MPI counts are int: larger buffers go in pieces of this many elements.
constexpr std::size_t kPieceCount = std::size_t{1} << 30;

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ErrorKind::kRankFailure, cat(call, ": ", text.data()),
              "another rank died; run the same command again");
}

MPI_Datatype mpi_type(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return MPI_UINT8_T;
    case ElementType::kInt64:
      return MPI_INT64_T;
    case ElementType::kFloat32:
      return MPI_FLOAT;
    case ElementType::kFloat64:
      break;
  }
  return MPI_DOUBLE;
}

// Calls `piece(pointer, count)` over the buffer in parts whose count fits an int.
template <class F>
void in_pieces(void* data, std::size_t count, ElementType type, const F& piece) {
  auto* bytes = static_cast<char*>(data);
  for (std::size_t done = 0; done < count; done += kPieceCount) {
    const std::size_t part = std::min(kPieceCount, count - done);
    piece(bytes + done * element_size_bytes(type), static_cast<int>(part));
  }
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

  void all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) override {
    const MPI_Op mpi_op = op == ReduceOp::kSum ? MPI_SUM : MPI_MAX;
    in_pieces(data, count, type, [&](void* part, int part_count) {
      check_mpi(
          MPI_Allreduce(MPI_IN_PLACE, part, part_count, mpi_type(type), mpi_op, MPI_COMM_WORLD),
          "MPI_Allreduce");
    });
  }

  void broadcast(void* data, std::size_t count, ElementType type, int root) override {
    in_pieces(data, count, type, [&](void* part, int part_count) {
      check_mpi(MPI_Bcast(part, part_count, mpi_type(type), root, MPI_COMM_WORLD), "MPI_Bcast");
    });
  }

  std::vector<std::string> gather(const std::string& bytes, int root) override {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
    const auto mine = static_cast<std::int64_t>(bytes.size());
    check_mpi(MPI_Gather(&mine, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, root, MPI_COMM_WORLD),
              "MPI_Gather");
    // Point to point in rank order: lengths differ and may exceed what MPI_Gatherv's ints hold.
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

  void barrier() override { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  static constexpr int kGatherTag = 1;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator() {
  return std::make_unique<MpiCommunicator>();
}

}  // namespace retina
