#include "train/monitor/timeline.h"

#include <limits>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/log.h"

namespace retina {
namespace {

using std::chrono::nanoseconds;

// Gap between two scopes, in which the phase around both shows for a moment.
constexpr nanoseconds kSeam(2000);

double microseconds(Timeline::Clock::duration duration) {
  return static_cast<double>(nanoseconds(duration).count()) * 1e-3;
}

std::string metadata(const char* name, int rank, int thread, const std::string& value) {
  JsonWriter json;
  json.begin_object().field("ph", "M").field("name", name).field("pid", rank).field("tid", thread);
  json.key("args").begin_object().field("name", value).end_object();
  return json.end_object().text() + ",\n";
}

}  // namespace

ClockOffset measure_clock_offset(Communicator& communicator,
                                 const std::function<std::int64_t()>& clock_ns) {
  constexpr int kRounds = 8;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> found(2 * ranks, 0);  // pairs of `ahead` and `error`, one for each rank
  for (std::size_t r = 1; r < ranks; ++r) {
    std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
    for (int round = 0; round < kRounds; ++round) {
      std::uint8_t ping = 0;
      const std::int64_t t0 = clock_ns();
      communicator.broadcast(&ping, 1, ElementType::kUint8, 0);
      std::int64_t s = clock_ns();
      communicator.broadcast(&s, 1, ElementType::kInt64, static_cast<int>(r));
      const std::int64_t t1 = clock_ns();
      if (t1 - t0 >= shortest_ns) continue;
      shortest_ns = t1 - t0;
      found[2 * r] = s - (t0 + (t1 - t0) / 2);
      found[2 * r + 1] = (t1 - t0 + 1) / 2;
    }
  }
  communicator.broadcast(found.data(), found.size(), ElementType::kInt64, 0);
  const auto own = 2 * static_cast<std::size_t>(communicator.rank());
  return {.ahead_ns = found[own], .error_ns = found[own + 1]};
}

StepWindow parse_step_window(const std::string& option, const std::string& text) {
  const auto pair = exact_pair<std::int64_t>(text, ':');
  if (pair && pair->first >= 1 && pair->second >= pair->first) {
    return {.first = pair->first, .last = pair->second};
  }
  throw Error(ErrorKind::kUsage,
              cat(option, ": bad value (got ", text, ", want FROM:TO with 1 <= FROM <= TO)"));
}

Timeline::Timeline(const StepWindow& window, std::size_t most_spans)
    : window_(window), most_spans_(most_spans) {}

void Timeline::keep(Span span) {
  if (spans_.size() < most_spans_) {
    spans_.push_back(std::move(span));
  } else {
    ++skipped_count_;
  }
}

void Timeline::close_phase(Clock::time_point now) {
  if (phase_ != Phase::kStart && now - phase_begin_ > kSeam) {
    keep({.name = std::string(phase_name(phase_)),
          .begin = phase_begin_,
          .end = now,
          .step = step_});
  }
  if (is_of_step(phase_)) step_end_ = now;
  phase_begin_ = now;
}

void Timeline::close_step() {
  if (step_end_ <= step_begin_) return;
  keep({.name = cat("step ", step_), .begin = step_begin_, .end = step_end_, .step = step_});
}

void Timeline::on_phase(Phase phase, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (is_recording()) close_phase(now);
  phase_ = phase;
  phase_begin_ = now;
}

void Timeline::on_step(std::int64_t step, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (is_recording()) {
    close_phase(now);
    close_step();
  }
  ++steps_begun_;
  step_ = step;
  step_begin_ = step_end_ = phase_begin_ = now;
}

void Timeline::on_collective_begin(const Operation& operation, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!is_recording()) return;
  const bool main = std::this_thread::get_id() == main_thread_;
  collective_ = Span{.row = main ? Row::kMain : Row::kCommunication,
                     .name = operation.name(),
                     .begin = now,
                     .step = step_,
                     .bytes = operation.bytes()};
}

void Timeline::on_collective_end(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!collective_) return;
  collective_->end = now;
  if (!finished_) keep(std::move(*collective_));
  collective_.reset();
}

bool Timeline::is_over() const {
  const std::lock_guard lock(mutex_);
  return steps_begun_ >= window_.last;
}

std::string Timeline::finish(int rank, const std::string& node, Clock::time_point origin) {
  const std::lock_guard lock(mutex_);
  if (is_recording()) {
    close_phase(Clock::now());
    close_step();
  }
  finished_ = true;
  std::string text = metadata("process_name", rank, 0, cat("rank ", rank, " (", node, ")"));
  text += metadata("thread_name", rank, static_cast<int>(Row::kMain), "main");
  text += metadata("thread_name", rank, static_cast<int>(Row::kCommunication), "communication");
  JsonWriter order;  // order of the rows of processes
  order.begin_object().field("ph", "M").field("name", "process_sort_index").field("pid", rank);
  order.key("args").begin_object().field("sort_index", rank).end_object().end_object();
  text += order.text() + ",\n";
  for (const Span& span : spans_) {
    JsonWriter json;
    json.begin_object().field("ph", "X").field("name", span.name).field("pid", rank);
    json.field("tid", static_cast<int>(span.row)).field("ts", microseconds(span.begin - origin));
    json.field("dur", microseconds(span.end - span.begin));
    json.key("args").begin_object().field("step", span.step);
    if (span.bytes) json.field("bytes", *span.bytes);
    text += json.end_object().end_object().text() + ",\n";
  }
  spans_ = {};
  return text;
}

TimelineFile::TimelineFile(const std::string& path, const StepWindow& window,
                           Communicator& communicator)
    : communicator_(communicator), timeline_(window) {
  RETINA_CHECK(communicator.activity() != nullptr);
  if (communicator.is_root()) file_ = std::make_unique<AtomicFile>(path);
  const auto now_ns = [] {
    return std::int64_t{nanoseconds(Timeline::Clock::now().time_since_epoch()).count()};
  };
  clock_ = measure_clock_offset(communicator, now_ns);
  std::int64_t origin_ns = now_ns();
  communicator.broadcast(&origin_ns, 1, ElementType::kInt64, 0);
  origin_ = Timeline::Clock::time_point(nanoseconds(origin_ns + clock_.ahead_ns));
  communicator.activity()->set_listener(&timeline_);
}

TimelineFile::~TimelineFile() {
  communicator_.activity()->set_listener(nullptr);
}

void TimelineFile::after_step() {
  if (!written_ && timeline_.is_over()) write();
}

void TimelineFile::finish() {
  if (!written_) write();
}

void TimelineFile::write() {
  written_ = true;
  const std::string own = timeline_.finish(communicator_.rank(), host_name(), origin_);
  const std::int64_t lost = communicator_.all_reduce_sum(timeline_.skipped_count());
  const std::int64_t error_ns = communicator_.all_reduce_max(clock_.error_ns);
  const std::vector<std::string> all = communicator_.gather(own, 0);
  if (!communicator_.is_root()) return;
  JsonWriter about;
  about.begin_object().field("ranks", communicator_.size());
  about.field("clocks", "rank 0's; of the others at most clock_error_us apart at the start");
  about.field("clock_error_us", static_cast<double>(error_ns) * 1e-3);
  about.field("events_left_out", lost).end_object();
  as_io_error([&] {
    file_->write("{\"displayTimeUnit\":\"ms\",\"otherData\":" + about.text() +
                 ",\n\"traceEvents\":[\n");
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::string_view part = all[rank];
      if (rank + 1 == all.size()) part.remove_suffix(2);  // no comma after the last
      file_->write(part);
    }
    file_->write("\n]}\n");
    file_->commit();
  });
  file_.reset();
  if (lost > 0) {
    log_warning("--timeline: ", lost, " events are missing; give fewer steps=FROM:TO");
  }
}

}  // namespace retina
