// Runs a WholeBatchPlan on one stream. The numbered steps of one run:
//  1. Batch and step values are copied to the device, or to their places where the batch is on the
//     device already.
//  2. Piece by piece: the thread waits for the last but one, the observer may interrupt, the piece
//     is queued (its recording, where there is one), gradients that are final are announced.
//  3. The loss is waited for. In half precision a step that overflowed is repeated from 1. with a
//     smaller loss scale, and gradients are announced only now.
// The first run of a batch size queues every kernel, the second records the pieces. Plans and
// recordings are kept of the sizes that ran last.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/profiler_range.hpp"
#include "core/tensor/cuda.hpp"
#include "core/units.hpp"
#include "layers/model/executor.hpp"
#include "layers/model/loss_scale.hpp"
#include "layers/model/recent_sizes.hpp"
#include "layers/model/step_queue.hpp"
#include "layers/model/step_recordings.hpp"
#include "layers/model/step_timer.hpp"
#include "layers/model/whole_batch_plan.hpp"

namespace cohort {
namespace {

/// The values of a step that kernels read on the device, and the loss scale among them.
class StepValuesCopy {
public:
    explicit StepValuesCopy(const ExecutorSetting& setting)
        : stream_(setting.stream),
          support_(setting.support),
          scaled_(setting.training && setting.precision == Precision::kF16),
          values_(setting.device.allocate_host(2 * sizeof(StepValues))) {}

    /// Gradients are scaled: training in half precision.
    [[nodiscard]] bool scaled() const noexcept { return scaled_; }
    void upload(const RunInput& input) {
        if (support_ != nullptr) {
            *host() = {.seed = input.seed,
                       .epoch = input.batch->epoch,
                       .loss_scale = scaled_ ? scale_.value() : 1.0F};
            stream_.copy(support_->step_values(), host(), sizeof(StepValues));
        }
    }
    /// Queues the way back.
    void download() {
        if (scaled_) {
            stream_.copy(host() + 1, support_->step_values(), sizeof(StepValues));
        }
    }
    /// After the download was waited for: the step is to be repeated with a smaller scale.
    [[nodiscard]] bool repeat() { return scaled_ && scale_.repeat_after(host()[1].overflow != 0); }

private:
    /// What goes to the device; what came back is behind it.
    [[nodiscard]] StepValues* host() const { return static_cast<StepValues*>(values_.data()); }

    Stream& stream_;
    KernelSupport* support_;
    bool scaled_;
    Buffer values_;
    LossScale scale_;
};

/// The plans of a network, one per batch size, and the arena's memory for them. A batch that does
/// not fit is refused with the largest that does.
class WholeBatchMemory {
public:
    /// @param setting, compiled  outlive it
    WholeBatchMemory(const ExecutorSetting& setting, CompiledGraph& compiled)
        : compiled_(compiled), device_(setting.device), staged_(setting.support != nullptr) {}

    /// The plan for a batch, with room for it in the arena. Errors: OutOfMemory.
    const WholeBatchPlan& prepare(std::int64_t batch, Arena& arena) {
        const WholeBatchPlan& plan = plan_for(batch, arena);
        try {
            arena.reserve(plan.arena_bytes);
        } catch (const OutOfMemory& error) {
            fail_short(plan, error.free, largest_within(plan, error.free));
        }
        return plan;
    }
    /// Frees what kernels have made for that size, and its plan.
    void forget(std::int64_t batch) {
        for (const auto& kernel : compiled_.kernels) {
            kernel->forget(batch);
        }
        plans_.erase(batch);
    }

private:
    const WholeBatchPlan& plan_for(std::int64_t batch, const Arena& arena) {
        const auto found = plans_.find(batch);
        if (found != plans_.end()) {
            return found->second;
        }
        // Kernels measure what they do to a batch of this size: not when its tensors alone do not
        // fit.
        const WholeBatchPlan tensors = plan_tensors(compiled_, batch, staged_);
        if (const std::uint64_t room = arena.room(); tensors.arena_bytes > room) {
            fail_short(tensors, room, fitting(tensors, room));
        }
        return plans_.emplace(batch, plan_whole_batch(compiled_, batch, staged_)).first->second;
    }

    [[nodiscard]] std::int64_t largest_within(const WholeBatchPlan& plan,
                                              std::uint64_t free) const {
        // Libraries load kernels and make recordings later: not the last byte is for the arena.
        return largest_batch_within(compiled_, plan, staged_, free - free / 64);
    }

    /// The largest batch whose tensors fit is prepared, to know what its kernels want besides.
    [[nodiscard]] std::int64_t fitting(const WholeBatchPlan& tensors, std::uint64_t free) {
        const std::int64_t most = largest_within(tensors, free);
        if (most == 0) {
            return 0;
        }
        const std::int64_t fits = [&] {
            try {
                return largest_within(plan_whole_batch(compiled_, most, staged_), free);
            } catch (const OutOfMemory&) {
                return most;  // the tensors alone have to do
            }
        }();
        if (!plans_.contains(most)) {
            forget(most);
        }
        return fits;
    }

    [[noreturn]] void fail_short(const WholeBatchPlan& plan, std::uint64_t free,
                                 std::int64_t fits) const {
        const std::string where = compiled_.graph.name() + " on " + device_.description();
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

    CompiledGraph& compiled_;
    const Device& device_;
    bool staged_;
    std::map<std::int64_t, WholeBatchPlan> plans_;
};

/// For a profiler.
constexpr const char* name_of(StepKind kind) {
    return kind == StepKind::kForward ? "forward" : kind == StepKind::kLoss ? "loss" : "backward";
}

class WholeBatchExecutor final : public Executor {
public:
    explicit WholeBatchExecutor(const ExecutorSetting& setting)
        : setting_(setting),
          compiled_(setting),
          queue_(compiled_, setting.stream, setting.support),
          memory_(setting, compiled_),
          values_(setting),
          staging_(setting.device, setting.stream),
          recordings_(setting.stream, setting.graph.name(), setting.recorded),
          sizes_(setting.recent_sizes),
          timer_(setting.stream, setting.graph.nodes().size()) {}

    void bind(const FlatBuffers& buffers) override {
        gradients_ = buffers.gradients;
        bind_kernels(compiled_, buffers);
    }
    std::optional<BatchResult> run(const RunInput& input, Arena& arena) override {
        prepare(input, arena);
        try {
            return run_prepared();
        } catch (...) {
            try {
                setting_.stream.synchronize();  // the device may still read the caller's memory
            } catch (const DeviceError&) {      // the first error counts
            }
            throw;
        }
    }

    void prefetch(const BatchView& batch) override {
        if (setting_.device.kind() == DeviceKind::kCuda) {
            cuda::use(setting_.device);
        }
        staging_.begin(parts_of(setting_.graph, batch, true, draws_by_ids(setting_.graph)),
                       batch.serial);
    }

    [[nodiscard]] std::optional<double> seconds() const override { return timer_.seconds(); }
    [[nodiscard]] std::size_t recorded_work() const override { return recordings_.size(); }
    [[nodiscard]] bool recorded() const override { return recordings_.complete(); }
    void set_profiling(bool on) override { timer_.set_profiling(on); }
    void add_profile(std::vector<LayerProfile>& profile) const override {
        timer_.layers().add_to(profile);
    }

private:
    struct Run {
        const WholeBatchPlan* plan = nullptr;
        RunInput input;
        std::vector<Piece> pieces;
    };

    void prepare(const RunInput& input, Arena& arena) {
        if (setting_.device.kind() == DeviceKind::kCuda) {
            cuda::use(setting_.device);
        }
        if (const auto oldest = sizes_.use(input.batch->size)) {
            recordings_.forget(*oldest);  // before the plans whose work they have recorded
            memory_.forget(*oldest);
        }
        const WholeBatchPlan& plan = plan_of(input.batch->size, arena);
        const bool observed = input.observer != nullptr;
        run_ = {&plan, input,
                observed ? cut_pieces(setting_.graph, plan.steps, setting_.piece_bytes)
                         : std::vector<Piece>{{0, plan.steps.size()}}};
        queue_.start(plan, input, arena.data());
        recordings_.start(
            {plan.batch, observed, input.logits != nullptr, input.batch->stored.channels},
            arena.data());
    }

    /// A batch has the memory sooner than what copies the next one ahead.
    const WholeBatchPlan& plan_of(std::int64_t batch, Arena& arena) {
        try {
            return memory_.prepare(batch, arena);
        } catch (const OutOfMemory&) {
            if (!staging_.drop()) {
                throw;
            }
            return memory_.prepare(batch, arena);
        }
    }

    std::optional<BatchResult> run_prepared() {
        timer_.start_run();
        for (;;) {
            upload();  // a step that is repeated has written over its samples
            values_.upload(run_.input);
            if (!queue_pieces()) {
                setting_.stream.synchronize();
                return std::nullopt;
            }
            const LossSums sums = finish();
            timer_.finish_run(run_.pieces.size() - 1);
            if (!values_.repeat()) {
                recordings_.finish();
                if (values_.scaled()) {
                    announce({0, run_.plan->steps.size()});
                }
                return BatchResult{sums.loss, sums.correct, run_.plan->batch};
            }
        }
    }

    void upload() {
        const std::vector<BatchPart> here = staging_.take(run_.input.batch->serial);
        queue_.upload(here.empty() ? queue_.parts() : here);
        if (!here.empty()) {
            staging_.taken();
        }
    }

    /// False: interrupted.
    [[nodiscard]] bool queue_pieces() {
        for (std::size_t index = 0; index < run_.pieces.size(); ++index) {
            const Piece& piece = run_.pieces[index];
            timer_.wait_for_piece(index);
            if (run_.input.observer != nullptr && run_.input.observer->should_interrupt()) {
                return false;
            }
            recordings_.queue(index, !timer_.profiling(), [&] { queue_work(piece); });
            timer_.end_piece(index);
            if (index == 0 && run_.input.observer != nullptr) {
                run_.input.observer->begun();
            }
            if (!values_.scaled()) {
                announce(piece);
            }
        }
        return true;
    }

    void queue_work(const Piece& piece) {
        if (piece.begin == 0) {
            queue_.arrive();
        }
        timer_.mark(nullptr);
        std::optional<ProfilerRange> pass;
        std::optional<StepKind> kind;
        for (std::size_t i = piece.begin; i < piece.end; ++i) {
            const PlannedStep& planned = run_.plan->steps[i];
            if (kind != planned.step.kind) {
                kind = planned.step.kind;
                pass.reset();
                pass.emplace(name_of(*kind));
            }
            queue_.run(planned);
            timer_.mark(&planned.step);
        }
        pass.reset();
        if (piece.end < run_.plan->steps.size()) {
            return;
        }
        if (run_.input.logits != nullptr) {
            queue_.read_outputs();
        }
        if (values_.scaled()) {
            setting_.support->unscale(gradients_, setting_.graph.parameters().total());
        }
    }

    /// Waits for the end of the run.
    LossSums finish() {
        if (run_.input.logits == nullptr) {
            values_.download();
            return compiled_.loss->finish();
        }
        setting_.stream.copy(
            run_.input.logits, queue_.outputs(),
            static_cast<std::size_t>(run_.plan->batch * setting_.graph.outputs()) * sizeof(float));
        setting_.stream.synchronize();
        return {};
    }

    void announce(const Piece& piece) {
        if (run_.input.observer == nullptr) {
            return;
        }
        for (std::size_t i = piece.begin; i < piece.end; ++i) {
            const Step& step = run_.plan->steps[i].step;
            if (step.kind == StepKind::kBackward && step.last_pass) {
                announce_gradients(setting_.graph, step.node, *run_.input.observer);
            }
        }
    }

    ExecutorSetting setting_;
    CompiledGraph compiled_;
    StepQueue queue_;
    WholeBatchMemory memory_;
    StepValuesCopy values_;
    BatchStaging staging_;
    StepRecordings recordings_;
    RecentSizes sizes_;
    StepTimer timer_;
    float* gradients_ = nullptr;
    Run run_;  ///< in progress
};

}  // namespace

std::unique_ptr<Executor> make_whole_batch_executor(const ExecutorSetting& setting) {
    return std::make_unique<WholeBatchExecutor>(setting);
}

}  // namespace cohort
