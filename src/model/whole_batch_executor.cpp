// Runs a WholeBatchPlan on one stream. The numbered steps of one run:
//  1. Batch and step values are copied to the device.
//  2. Piece by piece: the thread waits for the last but one, the observer may interrupt, the piece
//     is queued (its recording, where there is one), gradients that are final are announced.
//  3. The loss is waited for. In half precision a step that overflowed is repeated from 1. with a
//     smaller loss scale, and gradients are announced only now.
// The first run of a batch size queues every kernel, the second records the pieces.
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "model/executor.hpp"
#include "model/loss_scale.hpp"
#include "model/step_queue.hpp"
#include "model/whole_batch_plan.hpp"
#include "tensor/cuda.hpp"

namespace cohort {
namespace {

/// Recordings of one kind of run.
struct Recorded {
    bool ran = false;  ///< ran at least once, so that libraries have loaded their kernels
    std::vector<std::unique_ptr<Recording>> pieces;
};

/// Batch size, with an observer, without a loss. All else that recorded work depends on is the same
/// in every run of an executor, or is read on the device.
using RunKind = std::tuple<std::int64_t, bool, bool>;

class WholeBatchExecutor final : public Executor {
public:
    explicit WholeBatchExecutor(const ExecutorSetting& setting)
        : graph_(setting.graph),
          device_(setting.device),
          stream_(setting.stream),
          support_(setting.support),
          scaled_(setting.training && setting.precision == Precision::kF16),
          recording_(setting.recorded),
          piece_bytes_(setting.piece_bytes),
          compiled_(setting),
          queue_(compiled_, stream_, support_),
          values_(device_.allocate_host(2 * sizeof(StepValues))),
          times_(graph_.nodes().size()) {}

    void bind(const FlatBuffers& buffers) override {
        gradients_ = buffers.gradients;
        bind_kernels(compiled_, buffers);
    }
    std::optional<BatchResult> run(const RunInput& input, Arena& arena) override;
    [[nodiscard]] std::optional<double> seconds() const override { return seconds_; }
    void set_profiling(bool on) override {
        profiling_ = on;
        if (on) {
            times_.clear();
        }
    }
    void add_profile(std::vector<LayerProfile>& profile) const override { times_.add_to(profile); }

private:
    /// The device's time when a step was done; no step: when a piece began.
    struct Mark {
        const Step* step;
        std::unique_ptr<Event> event;
    };

    void prepare(const RunInput& input, Arena& arena);
    const WholeBatchPlan& plan_for(std::int64_t batch, const Arena& arena);
    void reserve(Arena& arena);
    [[nodiscard]] std::int64_t largest_within(const WholeBatchPlan& plan, std::uint64_t free) const;
    [[nodiscard]] std::int64_t fitting(const WholeBatchPlan& tensors, std::uint64_t free);
    [[noreturn]] void fail_short(const WholeBatchPlan& plan, std::uint64_t free,
                                 std::int64_t fits) const;
    std::optional<BatchResult> run_prepared();
    void upload_values();
    [[nodiscard]] bool queue_pieces();
    void queue_piece(std::size_t index);
    [[nodiscard]] std::unique_ptr<Recording> record(const Piece& piece);
    [[nodiscard]] bool record_piece(const Piece& piece);
    void queue_work(const Piece& piece);
    [[nodiscard]] bool overflowed() const;
    void announce(const Piece& piece);
    void take_times();

    /// Step values sent to the device, followed by those read back.
    [[nodiscard]] StepValues* host_values() const {
        return static_cast<StepValues*>(values_.data());
    }

    const Graph& graph_;
    Device& device_;
    Stream& stream_;
    KernelSupport* support_;
    bool scaled_;
    bool recording_;
    std::size_t piece_bytes_;
    CompiledGraph compiled_;
    StepQueue queue_;
    Buffer values_;
    float* gradients_ = nullptr;
    std::map<std::int64_t, WholeBatchPlan> plans_;
    std::map<RunKind, Recorded> recorded_;
    std::byte* recorded_at_ = nullptr;  ///< the arena used by the recordings
    LossScale scale_;
    bool profiling_ = false;
    LayerTimes times_;
    std::optional<double> seconds_;

    // The run in progress.
    const WholeBatchPlan* plan_ = nullptr;
    RunInput input_;
    std::vector<Piece> pieces_;
    Recorded* recordings_ = nullptr;
    std::unique_ptr<Event> start_;
    std::array<std::unique_ptr<Event>, 2> ends_;  ///< of the last two pieces
    std::vector<Mark> marks_;
};

std::optional<BatchResult> WholeBatchExecutor::run(const RunInput& input, Arena& arena) {
    prepare(input, arena);
    try {
        return run_prepared();
    } catch (...) {
        try {
            stream_.synchronize();      // the device may still read the caller's memory
        } catch (const DeviceError&) {  // the first error counts
        }
        throw;
    }
}

void WholeBatchExecutor::prepare(const RunInput& input, Arena& arena) {
    if (device_.kind() == DeviceKind::kCuda) {
        cuda::use(device_);
    }
    const std::int64_t batch = input.batch->size;
    plan_ = &plan_for(batch, arena);
    input_ = input;
    seconds_.reset();
    marks_.clear();
    reserve(arena);
    queue_.start(*plan_, input, arena.data());
    if (arena.data() != recorded_at_) {
        for (auto& [kind, recorded] : recorded_) {
            recorded.pieces.clear();
        }
        recorded_at_ = arena.data();
    }
    const bool observed = input.observer != nullptr;
    recordings_ = &recorded_[{batch, observed, input.logits != nullptr}];
    pieces_ = observed ? cut_pieces(graph_, plan_->steps, piece_bytes_)
                       : std::vector<Piece>{{0, plan_->steps.size()}};
}

const WholeBatchPlan& WholeBatchExecutor::plan_for(std::int64_t batch, const Arena& arena) {
    const auto found = plans_.find(batch);
    if (found != plans_.end()) {
        return found->second;
    }
    const bool staged = support_ != nullptr;
    // Kernels are measured on a batch of this size: only if its tensors fit.
    const WholeBatchPlan tensors = plan_tensors(compiled_, batch, staged);
    if (const std::uint64_t room = arena.room(); tensors.arena_bytes > room) {
        fail_short(tensors, room, fitting(tensors, room));
    }
    return plans_.emplace(batch, plan_whole_batch(compiled_, batch, staged)).first->second;
}

void WholeBatchExecutor::reserve(Arena& arena) {
    try {
        arena.reserve(plan_->arena_bytes);
    } catch (const OutOfMemory& error) {
        fail_short(*plan_, error.free, largest_within(*plan_, error.free));
    }
}

std::int64_t WholeBatchExecutor::largest_within(const WholeBatchPlan& plan,
                                                std::uint64_t free) const {
    // Libraries load kernels and make recordings later: leave some memory free.
    return largest_batch_within(compiled_, plan, support_ != nullptr, free - free / 64);
}

/// Prepares the largest batch whose tensors fit, to find the memory that its kernels need besides.
std::int64_t WholeBatchExecutor::fitting(const WholeBatchPlan& tensors, std::uint64_t free) {
    const std::int64_t most = largest_within(tensors, free);
    if (most == 0) {
        return 0;
    }
    try {
        return largest_within(plan_whole_batch(compiled_, most, support_ != nullptr), free);
    } catch (const OutOfMemory&) {
        return most;
    }
}

void WholeBatchExecutor::fail_short(const WholeBatchPlan& plan, std::uint64_t free,
                                    std::int64_t fits) const {
    const std::string where = graph_.name() + " on " + device_.description();
    const std::string hint =
        fits > 0 ? "a batch of at most " + std::to_string(fits) + ", the largest that fits"
                 : "a device with more memory: not even a batch of 1 fits";
    throw OutOfMemory(
        error_message({.where = where,
                       .what = "out of memory: a batch of " + std::to_string(plan.batch) +
                               " asks for " + format_bytes(plan.arena_bytes) + " at once, " +
                               format_bytes(free) + " free",
                       .hint = hint}),
        plan.arena_bytes, free);
}

std::optional<BatchResult> WholeBatchExecutor::run_prepared() {
    start_ = stream_.record();
    for (;;) {
        queue_.upload();  // the repeated step has overwritten its samples
        upload_values();
        if (!queue_pieces()) {
            stream_.synchronize();
            return std::nullopt;
        }
        LossSums sums;
        if (input_.logits != nullptr) {
            stream_.copy(input_.logits, queue_.outputs(),
                         static_cast<std::size_t>(plan_->batch * graph_.classes()) * sizeof(float));
            stream_.synchronize();
        } else {
            if (scaled_) {
                stream_.copy(host_values() + 1, support_->step_values(), sizeof(StepValues));
            }
            sums = compiled_.loss->finish();
        }
        take_times();
        if (!scaled_ || !scale_.repeat_after(overflowed())) {
            recordings_->ran = true;
            if (scaled_) {
                announce({0, plan_->steps.size()});
            }
            return BatchResult{sums.loss, sums.correct, plan_->batch};
        }
    }
}

void WholeBatchExecutor::upload_values() {
    if (support_ != nullptr) {
        *host_values() = {.seed = input_.seed,
                          .epoch = input_.batch->epoch,
                          .loss_scale = scaled_ ? scale_.value() : 1.0F};
        stream_.copy(support_->step_values(), host_values(), sizeof(StepValues));
    }
}

/// False: interrupted.
bool WholeBatchExecutor::queue_pieces() {
    for (std::size_t index = 0; index < pieces_.size(); ++index) {
        if (index >= ends_.size()) {
            ends_[index % ends_.size()]->wait();
        }
        if (input_.observer != nullptr && input_.observer->should_interrupt()) {
            return false;
        }
        queue_piece(index);
        ends_[index % ends_.size()] = stream_.record();
        if (!scaled_) {
            announce(pieces_[index]);
        }
    }
    return true;
}

void WholeBatchExecutor::queue_piece(std::size_t index) {
    if (!profiling_ && index < recordings_->pieces.size()) {
        recordings_->pieces[index]->queue();
        return;
    }
    const bool may_record = recording_ && !profiling_ && recordings_->ran;
    if (!may_record || !record_piece(pieces_[index])) {
        queue_work(pieces_[index]);
    }
}

/// Records a piece. nullptr: this device cannot record. Errors: the reason why the piece cannot be
/// recorded; then none of it is queued, and the stream has stopped recording.
std::unique_ptr<Recording> WholeBatchExecutor::record(const Piece& piece) {
    if (!stream_.begin_recording()) {
        return nullptr;
    }
    try {
        queue_work(piece);
    } catch (...) {
        try {
            static_cast<void>(stream_.end_recording());
        } catch (const DeviceError&) {  // the first error counts
        }
        throw;
    }
    return stream_.end_recording();
}

/// Records and queues a piece. False: it cannot be recorded, and nothing is queued.
bool WholeBatchExecutor::record_piece(const Piece& piece) {
    std::unique_ptr<Recording> recording;
    try {
        recording = record(piece);
    } catch (const std::exception& error) {
        log_warn("Steps of {} cannot be recorded, their kernels are queued one by one: {}",
                 graph_.name(), error.what());
    }
    if (recording == nullptr) {
        recording_ = false;
        return false;
    }
    recording->queue();
    recordings_->pieces.push_back(std::move(recording));
    return true;
}

void WholeBatchExecutor::queue_work(const Piece& piece) {
    if (piece.begin == 0) {
        queue_.arrive();
    }
    if (profiling_) {
        marks_.push_back({nullptr, stream_.record()});
    }
    for (std::size_t i = piece.begin; i < piece.end; ++i) {
        queue_.run(plan_->steps[i]);
        if (profiling_) {
            marks_.push_back({&plan_->steps[i].step, stream_.record()});
        }
    }
    if (piece.end < plan_->steps.size()) {
        return;
    }
    if (input_.logits != nullptr) {
        queue_.read_outputs();
    }
    if (scaled_) {
        support_->unscale(gradients_, graph_.parameters().total());
    }
}

bool WholeBatchExecutor::overflowed() const {
    return host_values()[1].overflow != 0;
}

void WholeBatchExecutor::announce(const Piece& piece) {
    if (input_.observer == nullptr) {
        return;
    }
    for (std::size_t i = piece.begin; i < piece.end; ++i) {
        const Step& step = plan_->steps[i].step;
        if (step.kind == StepKind::kBackward && step.last_pass) {
            announce_gradients(graph_, step.node, *input_.observer);
        }
    }
}

/// Reads the device's times; called after waiting for the run's end.
void WholeBatchExecutor::take_times() {
    seconds_ = ends_[(pieces_.size() - 1) % ends_.size()]->seconds_since(*start_);
    for (std::size_t i = 1; i < marks_.size(); ++i) {
        const Step* step = marks_[i].step;
        if (step != nullptr && step->kind != StepKind::kLoss) {
            times_.add(*step, marks_[i].event->seconds_since(*marks_[i - 1].event));
        }
    }
    marks_.clear();
}

}  // namespace

std::unique_ptr<Executor> make_whole_batch_executor(const ExecutorSetting& setting) {
    return std::make_unique<WholeBatchExecutor>(setting);
}

}  // namespace cohort
