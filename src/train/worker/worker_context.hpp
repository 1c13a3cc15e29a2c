#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "cohort/data/slice_reader.hpp"
#include "cohort/train/trainer.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "train/faults/injection.hpp"
#include "train/protocol/links.hpp"
#include "train/protocol/protocol.hpp"
#include "train/run/job_parts.hpp"
#include "train/worker/iteration_meter.hpp"
#include "train/worker/servers/worker_device.hpp"
#include "train/worker/sleep_compute.hpp"

namespace cohort {

/// What both executors of a worker work with: its device, replica and loaders, and the orders it
/// gets. Only the computing thread uses it, unless something else is said.
class WorkerContext {
public:
    using OrderHandler = std::function<void(const Message&)>;
    using Missing = std::function<std::vector<int>()>;

    /// Errors: UsageError, DeviceError, ShapeError.
    WorkerContext(Links links, JobParts& job, const TrainEnvironment& environment, int worker);

    [[nodiscard]] const Links& links() const noexcept { return links_; }
    [[nodiscard]] JobParts& job() noexcept { return job_; }
    [[nodiscard]] const Clock& clock() const noexcept { return *environment_.clock; }
    [[nodiscard]] int worker() const noexcept { return worker_; }
    [[nodiscard]] Replica& replica() noexcept { return replica_; }
    [[nodiscard]] Injector& injector() noexcept { return injector_; }
    [[nodiscard]] IterationMeter& meter() noexcept { return meter_; }
    [[nodiscard]] const Device& device() const noexcept { return *device_; }
    /// What training steps are observed with.
    [[nodiscard]] StepParts step_parts() noexcept {
        return {replica_, injector_, worker_device_ ? &*worker_device_ : nullptr};
    }
    /// Of a replica that does not lie in host memory.
    [[nodiscard]] WorkerDevice& worker_device() { return worker_device_.value(); }
    /// The scope of an exchange whose buffer may lie where the replica does.
    [[nodiscard]] AllReduceScope on_this_device(AllReduceScope scope);
    [[nodiscard]] static Address coordinator() noexcept { return {0, Port::kCoordinator}; }

    /// Who gets the orders that are not the context's own (leases, kStop). kBegin goes to both.
    void set_orders(OrderHandler handler) { handler_ = std::move(handler); }

    template <class Kind, class T>
    void tell_coordinator(Kind kind, const T& what) {
        links_.messenger.send(coordinator(), Port::kWorker, static_cast<std::uint16_t>(kind),
                              encode(what));
    }

    /// kBegin has come. From any thread.
    [[nodiscard]] bool begun() const noexcept { return begun_; }
    /// kStop has come.
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }
    /// Leases that next_batch() has not handed out.
    [[nodiscard]] std::size_t leases() const noexcept { return leases_.size(); }
    /// Takes what has come, and tells the coordinator when this rank was asked to stop.
    void take_orders();
    static constexpr Clock::Seconds kProgressEvery{1};
    /// How often a waiting worker looks whether its rank was asked to stop.
    static constexpr Clock::Seconds kLook{0.1};
    /// Takes orders until `ready` or kStop. Sleeps under a named wait, see OperationBoard::begin:
    /// for what peers owe, or (kNone) for work.
    /// @param look asks `ready` again after this time if no order came
    void await(std::string_view name, std::uint64_t sequence, const std::function<bool()>& ready,
               Missing missing, WaitLimit limit, Clock::Seconds look = kLook);
    /// A named wait for this rank's own long work, whose length depends on no peer.
    [[nodiscard]] OperationBoard::Wait working(std::string_view name, std::uint64_t sequence) {
        return links_.operations.begin(name, sequence, {}, WaitLimit::kWarn);
    }
    /// The coordinator's rank, for await.
    [[nodiscard]] static Missing from_coordinator();

    /// The batch of the oldest lease; sleeps until it is prepared. std::nullopt: kStop came and
    /// `heed_stop`, or there is no lease. Errors: those of Loader::next.
    [[nodiscard]] std::optional<LoadedBatch> next_batch(bool heed_stop);
    /// The same; nothing also when `give_up`, asked several times a second, says true.
    [[nodiscard]] std::optional<LoadedBatch> next_batch(const std::function<bool()>& give_up);
    /// The order for the batch that next_batch() handed out last.
    [[nodiscard]] const LeaseOrder& lease_order() const noexcept { return lease_order_; }

    /// Leases that have come back: next_batch() skips their batches, revoked() says so.
    void revoke(const RevokeOrder& order);
    /// Forgets all leases that next_batch() has not handed out.
    void drop_leases();
    [[nodiscard]] bool revoked(std::uint64_t lease) const;
    /// Counts how often this worker was lost; goes into its pushes.
    [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }
    void begin_incarnation(std::uint32_t incarnation) noexcept { incarnation_ = incarnation; }
    /// A mini-batch on the replica's parameters, or what `--compute` puts in its place. Nothing
    /// when the observer interrupted it. One that does not fit the device's memory gives some
    /// gradient and a loss that is not finite, which voids it, and the coordinator is asked to end
    /// the run; OutOfMemory when this worker has done others and may leave the job instead.
    [[nodiscard]] std::optional<BatchResult> train_step(const BatchView& batch,
                                                        StepObserver& observer);
    /// Own time of the last train_step, which took this thread `host_s`: what its device says,
    /// where it keeps time. Injected slowness is in the thread's time alone.
    [[nodiscard]] double own_seconds(double host_s) const;
    /// The same; nothing where the thread's time counts.
    [[nodiscard]] std::optional<double> device_seconds() const;

    /// Evaluates a part of the test group with the parameters as they are and reports it. Gives up
    /// silently between batches when kStop comes, this rank is asked to stop or begins a new
    /// incarnation. Says kEvaluating at most once in kProgressEvery.
    void evaluate(const EvaluationOrder& order);

    /// Host memory to device memory or back, at once.
    void copy(std::span<float> to, std::span<const float> from);
    /// The buffer of `exchange` becomes zero, wherever it lies.
    void fill_zero(const AllReduce& exchange, std::span<float> buffer);

    void say_farewell();

private:
    /// Whether work that can be given up should be: kStop has come or is being asked for.
    [[nodiscard]] bool stopping();
    void handle(const Message& message);
    [[nodiscard]] std::uint64_t moment_of(const LeaseOrder& order) const;
    void submit(const LeaseOrder& order);
    [[nodiscard]] bool may_leave() const;
    void fail_run(const OutOfMemory& reason);

    Links links_;
    JobParts& job_;
    const TrainEnvironment& environment_;
    int worker_;
    std::unique_ptr<Device> device_;
    Replica replica_;
    std::optional<WorkerDevice> worker_device_;  ///< unless the replica lies in host memory
    std::optional<SleepCompute> sleep_;          ///< in place of the network
    bool stepped_ = false;                       ///< a mini-batch has fitted the memory
    Loader train_loader_;
    Loader test_loader_;
    SliceReader slices_;
    Injector injector_;
    IterationMeter meter_;
    OrderHandler handler_;
    std::deque<LeaseOrder> leases_;  ///< the loader's, oldest first
    LeaseOrder lease_order_;
    std::uint64_t batches_ = 0;
    std::atomic<bool> begun_{false};
    bool stopped_ = false;
    bool stop_told_ = false;
    std::uint32_t incarnation_ = 0;
    std::uint64_t revoked_up_to_ = 0;
    std::set<std::uint64_t> revoked_;  ///< above revoked_up_to_
};

/// One way of exchanging gradients, from a worker's side.
class WorkerExecutor {
public:
    WorkerExecutor() = default;
    WorkerExecutor(const WorkerExecutor&) = delete;
    WorkerExecutor& operator=(const WorkerExecutor&) = delete;
    virtual ~WorkerExecutor() = default;
    /// An order has come, see WorkerContext::set_orders.
    virtual void order(const Message& message) = 0;
    /// Works until kStop.
    virtual void run() = 0;
    /// Of the parameters in use.
    [[nodiscard]] virtual std::int64_t version() const noexcept = 0;
};

/// An order that this worker cannot know. Errors: PeerError, always.
[[noreturn]] void refuse_order(const Message& message);

}  // namespace cohort
